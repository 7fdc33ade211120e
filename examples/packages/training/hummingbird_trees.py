"""hummingbird: scikit-learn's trees and pipelines as tensor programs."""

# requires: hummingbird-ml==0.4.12 scikit-learn==1.9.1

import numpy as np
from hummingbird.ml import convert
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 6)).astype(np.float32)
y = (x[:, 0] * x[:, 1] > 0).astype(int)
for model in (
    RandomForestClassifier(8, max_depth=4, random_state=0),
    GradientBoostingClassifier(n_estimators=8, random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression()),
):
    model.fit(x, y)
    converted = convert(model, "pytorch", x)
    p = converted.predict_proba(x)
    print(type(model).__name__, f"{np.abs(p - model.predict_proba(x)).max() < 1e-5} {p[:, 1].sum():.3f}")
