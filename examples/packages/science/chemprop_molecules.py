"""chemprop: message passing along the bonds of molecules learns a property of them."""

# requires: chemprop==2.3.1
import torch
from chemprop import data, featurizers, models, nn

torch.manual_seed(0)
molecules = {
    "CCO": 0.5, "c1ccccc1": 1.2, "CC(=O)O": 0.1, "CCN": 0.3, "CCCl": 0.9, "C1CCCCC1": 1.5, "CC#N": 0.2, "OCC(O)CO": -0.7
}  # fmt: skip
points = [data.MoleculeDatapoint.from_smi(smiles, [value]) for smiles, value in molecules.items()]
dataset = data.MoleculeDataset(points, featurizers.SimpleMoleculeMolGraphFeaturizer())
loader = data.build_dataloader(dataset, batch_size=4, shuffle=False, num_workers=0)
model = models.MPNN(nn.BondMessagePassing(d_h=32), nn.MeanAggregation(), nn.RegressionFFN(input_dim=32, hidden_dim=16))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(4):
    losses = []
    for batch in loader:
        loss = (model(batch.bmg) - batch.Y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(*losses)
