"""Fourier transforms, spectrograms and windows.

Modules, in reading order:

- `fft`: Discrete Fourier transforms: of complex, real and conjugate symmetric signals, over one dimension or several.
- `fftfreq`: The frequencies that belong to the elements of a spectrum, and spectra with frequency 0 in the middle.
- `torch_windows`: Windows of M points, symmetric or periodic: values that fade a stretch of a signal in and out.
- `windows`: Windows: weights that fade a stretch of a signal in and out, so that its spectrum is not smeared.
- `stft`: The Fourier transforms of short, overlapping pieces of a signal, and the signal from them.
"""
