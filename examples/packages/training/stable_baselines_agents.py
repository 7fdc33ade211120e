"""stable-baselines3: PPO and DQN on CartPole, SAC on Pendulum: what the agents do and what they weigh."""

# requires: stable-baselines3==2.9.2 gymnasium==1.4.0
import gymnasium
import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy

agents = {
    "PPO": (PPO, "CartPole-v1", 256, {"n_steps": 64, "batch_size": 32, "n_epochs": 4}),
    "DQN": (DQN, "CartPole-v1", 300, {"learning_starts": 100, "target_update_interval": 50}),
    "SAC": (SAC, "Pendulum-v1", 140, {"learning_starts": 100, "policy_kwargs": {"net_arch": [32, 32]}}),
}
for name, (algorithm, task, steps, options) in agents.items():
    environment = gymnasium.make(task)
    agent = algorithm("MlpPolicy", environment, seed=0, device="cpu", **options)
    agent.learn(steps)
    with torch.no_grad():
        weight = sum(p.abs().mean().item() for p in agent.policy.parameters())
    agent.get_env().seed(1)
    reward, _ = evaluate_policy(agent, agent.get_env(), n_eval_episodes=2, warn=False)
    print(f"{name}: weights {weight:.5f} reward {reward:.2f}")
