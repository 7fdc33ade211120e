"""darts: N-BEATS, a temporal convolutional network and an LSTM forecast a seasonal series."""

# requires: darts==0.48.1

import numpy as np
from darts import TimeSeries
from darts.models import NBEATSModel, NHiTSModel, RNNModel, TCNModel, TransformerModel

values = np.sin(np.arange(80) / 5) + 0.01 * np.arange(80)
series = TimeSeries.from_values(values.astype(np.float32))
settings = {
    "n_epochs": 2,
    "batch_size": 16,
    "random_state": 0,
    "pl_trainer_kwargs": {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
        "accelerator": "cpu",
        "enable_checkpointing": False,
    },
}
models = {
    "N-BEATS": NBEATSModel(12, 4, num_stacks=2, num_blocks=1, num_layers=2, layer_widths=16, **settings),
    "TCN": TCNModel(12, 4, kernel_size=3, num_filters=4, **settings),
    "LSTM": RNNModel(12, model="LSTM", hidden_dim=8, training_length=16, **settings),
    "Transformer": TransformerModel(
        12, 4, d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, **settings
    ),
    "NHiTS": NHiTSModel(12, 4, num_stacks=2, num_blocks=1, num_layers=2, layer_widths=16, **settings),
}
for name, model in models.items():
    model.fit(series, verbose=False)
    print(name, *(f"{v:.3f}" for v in model.predict(4).values().flatten()))
