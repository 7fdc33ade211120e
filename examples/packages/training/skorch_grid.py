"""skorch: a network as scikit-learn's classifier: fit, cross-validation, and a grid search in a pipeline."""

# requires: skorch==1.4.0
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring, LRScheduler
from torch import nn

torch.manual_seed(0)
x, y = load_breast_cancer(return_X_y=True)
x, y = x.astype("float32"), y.astype("int64")


class Network(nn.Module):
    """Two layers with dropout."""

    def __init__(self, width=16, rate=0.1):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(30, width), nn.ReLU(), nn.Dropout(rate), nn.Linear(width, 2))

    def forward(self, x):
        return self.layers(x)


classifier = NeuralNetClassifier(
    Network,
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.AdamW,
    lr=0.01,
    max_epochs=4,
    batch_size=64,
    iterator_train__shuffle=True,
    callbacks=[EpochScoring("roc_auc", lower_is_better=False, name="auc"), LRScheduler("StepLR", step_size=2)],
    verbose=0,
)
pipeline = make_pipeline(StandardScaler(), classifier)
pipeline.fit(x, y)
for epoch in pipeline[-1].history:
    print(*(f"{key} {epoch[key]:.4f}" for key in ("train_loss", "valid_loss", "valid_acc", "auc")))
print("folds", *(f"{score:.4f}" for score in cross_val_score(pipeline, x, y, cv=3)))
search = GridSearchCV(pipeline, {"neuralnetclassifier__module__width": [4, 32]}, cv=2, scoring="neg_log_loss")
search.fit(x, y)
print("grid", *(f"{score:.4f}" for score in search.cv_results_["mean_test_score"]), search.best_params_)
