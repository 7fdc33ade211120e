"""Keras 3 on its torch backend: `fit`, `evaluate` and `predict` of a dense and a convolutional model."""

# requires: keras==3.15.1
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
images = rng.normal(size=(96, 12, 12, 1)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0).astype("int64")

dense = keras.Sequential([
    layers.Flatten(),
    layers.Dense(32, activation="relu"),
    layers.BatchNormalization(),
    layers.Dense(2, activation="softmax"),
])
convolutional = keras.Sequential([
    layers.Conv2D(8, 3, activation="gelu"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(2, activation="softmax"),
])
for name, model in {"dense": dense, "convolutional": convolutional}.items():
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(5e-3, 20)),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    history = model.fit(images, labels, batch_size=16, epochs=3, validation_split=0.25, verbose=0)
    for key, values in history.history.items():
        print(name, key, *(f"{value:.4f}" for value in values))
    loss, accuracy = model.evaluate(images, labels, verbose=0)
    print(name, f"{loss:.4f} {accuracy:.4f} {float(model.predict(images[:4], verbose=0)[:, 1].sum()):.4f}")
