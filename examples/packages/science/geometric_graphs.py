"""torch-geometric: GCN, GAT and GIN layers on batches of graphs, with pooling and a neighbour matrix."""

# requires: torch-geometric==2.8.1
import torch
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, TopKPooling, global_mean_pool
from torch_geometric.utils import degree, to_dense_adj, to_undirected

torch.manual_seed(0)


def make_graph(nodes, label):
    """Return a ring of nodes with chords where the label is 1."""
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    chords = torch.stack([torch.arange(nodes), (torch.arange(nodes) + nodes // 2) % nodes])
    edges = to_undirected(torch.cat([ring, chords], 1) if label else ring)
    return Data(x=torch.randn(nodes, 8), edge_index=edges, y=torch.tensor([label]))


batch = Batch.from_data_list([make_graph(6 + i % 4, i % 2) for i in range(12)])
dense = to_dense_adj(batch.edge_index, batch.batch)
print(f"degree {degree(batch.edge_index[0]).mean().item():.4f} dense {dense.mean().item():.4f}")
layers = {
    "GCN": GCNConv(8, 16),
    "GAT": GATConv(8, 4, heads=4, dropout=0.1),
    "SAGE": SAGEConv(8, 16),
    "GIN": GINConv(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))),
}
for name, layer in layers.items():
    pool, head = TopKPooling(16, ratio=0.7), torch.nn.Linear(16, 2)
    parameters = [p for module in (layer, pool, head) for p in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(5):
        x = layer(batch.x, batch.edge_index).relu()
        x, _, _, groups, _, _ = pool(x, batch.edge_index, batch=batch.batch)
        loss = F.cross_entropy(head(global_mean_pool(x, groups)), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses)
