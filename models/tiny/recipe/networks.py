"""PyTorch twins of the MLX networks, for training alone; their logits equal those of `models.laguna` in float32."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.tiny.recipe.shape import Shape, SpeculatorShape


def frequencies(dims: int, base: float, factor: float = 1.0, original: int = 0, fast: float = 32.0) -> Tensor:
    """Inverse frequencies [dims / 2] of RoPE, with `factor` > 1 those of YaRN (Peng et al. 2023, beta_slow 1)."""
    extra = base ** (torch.arange(0, dims, 2, dtype=torch.float32) / dims)
    if factor <= 1:
        return 1 / extra
    low, high = (dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (fast, 1.0))
    start, stop = max(math.floor(low), 0), min(math.ceil(high), dims - 1)
    ramp = ((torch.arange(dims // 2) - start) / max(stop - start, 0.001)).clamp(0, 1)
    inter = factor * extra
    return (inter * (1 - ramp) + extra * ramp) / (inter * extra)


def rotate(x: Tensor, positions: Tensor, inverse: Tensor, scale: float) -> Tensor:
    """Rotate the first dims of x [B, H, L, D] by `positions` [L] or [B, L] (halves convention)."""
    angles = positions[..., None].float() * inverse
    if angles.dim() == 3:
        angles = angles[:, None]
    cos, sin = angles.cos() * scale, angles.sin() * scale
    half = inverse.shape[0]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


class Norm(nn.Module):
    """RMSNorm with a weight."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


def linear(inner: int, outer: int) -> nn.Linear:
    """A projection without bias."""
    return nn.Linear(inner, outer, bias=False)


class Attention(nn.Module):
    """Grouped-query attention with QK norm, RoPE and a softplus gate per head."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int, inverse: Tensor, scale: float) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.scale = heads, kv_heads, head_dim, scale
        self.q_proj, self.o_proj = linear(hidden, heads * head_dim), linear(heads * head_dim, hidden)
        self.k_proj, self.v_proj = (linear(hidden, kv_heads * head_dim) for _ in range(2))
        self.g_proj = linear(hidden, heads)
        self.q_norm, self.k_norm = Norm(head_dim), Norm(head_dim)
        self.register_buffer("inverse", inverse, persistent=False)

    def keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated keys and plain values [B, kv heads, L, head_dim] of x [B, L, hidden]."""
        shape = (*x.shape[:2], self.kv_heads, self.head_dim)
        keys = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        return rotate(keys, positions, self.inverse, self.scale), self.v_proj(x).view(shape).transpose(1, 2)

    def attend(self, x: Tensor, positions: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of x [B, L, hidden] over given keys and values; without a mask, causal."""
        shape = (*x.shape[:2], self.heads, self.head_dim)
        queries = rotate(self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2), positions, self.inverse, self.scale)
        groups = self.heads // self.kv_heads
        out = F.scaled_dot_product_attention(
            queries,
            keys.repeat_interleave(groups, 1),
            values.repeat_interleave(groups, 1),
            attn_mask=mask,
            is_causal=mask is None,
        ).transpose(1, 2)
        return self.o_proj((out * F.softplus(self.g_proj(x))[..., None]).flatten(2))


class Gated(nn.Module):
    """A SwiGLU MLP."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (
            linear(hidden, inner),
            linear(hidden, inner),
            linear(inner, hidden),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x [..., hidden] to [..., hidden]."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Sigmoid router with a correction bias that is moved by load, top-k experts, and a shared expert."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.router = linear(shape.hidden, shape.experts)
        self.register_buffer("bias", torch.zeros(shape.experts))
        self.up = nn.Parameter(torch.randn(shape.experts, shape.hidden, 2 * shape.expert_inner) * 0.05)
        self.down = nn.Parameter(torch.randn(shape.experts, shape.expert_inner, shape.hidden) * 0.02)
        self.shared_expert = Gated(shape.hidden, shape.shared_inner)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, L, hidden] to the same; in training the bias follows the load (Wang et al. 2024)."""
        flat = x.flatten(0, 1)
        scores = torch.sigmoid(self.router(flat))
        picked = (scores + self.bias).topk(self.shape.top_k, -1).indices
        weights = scores.gather(1, picked)
        weights = weights / weights.sum(-1, keepdim=True) * self.shape.scaling
        order = picked.flatten().argsort(stable=True)
        counts = torch.bincount(picked.flatten(), minlength=self.shape.experts)
        tokens = order // self.shape.top_k
        parts = []
        for expert, part in enumerate(flat[tokens].split(counts.tolist())):
            gate, up = (part @ self.up[expert]).chunk(2, -1)
            parts.append((F.silu(gate) * up) @ self.down[expert])
        routed = torch.zeros_like(flat).index_add(0, tokens, torch.cat(parts) * weights.flatten()[order][:, None])
        if self.training:
            with torch.no_grad():
                self.bias += 1e-3 * torch.sign(counts.float().mean() - counts)
        return routed.view_as(x) + self.shared_expert(x)


class Layer(nn.Module):
    """One block of the target."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        self.sliding = shape.sliding(index)
        inverse = (
            frequencies(shape.head_dim, 10000.0)
            if self.sliding
            else frequencies(shape.head_dim // 2, 500000.0, shape.yarn_factor, shape.yarn_original)
        )
        scale = 1.0 if self.sliding else 0.1 * math.log(shape.yarn_factor) + 1.0
        self.self_attn = Attention(shape.hidden, shape.heads(index), shape.kv_heads, shape.head_dim, inverse, scale)
        self.mlp = Gated(shape.hidden, shape.inner) if index == 0 else Experts(shape)
        self.input_layernorm, self.post_attention_layernorm = Norm(shape.hidden), Norm(shape.hidden)

    def forward(self, x: Tensor, positions: Tensor, window: Tensor) -> Tensor:
        """x [B, L, hidden]; `window` [L, L] is the sliding layers' mask."""
        normed = self.input_layernorm(x)
        keys, values = self.self_attn.keys_values(normed, positions)
        x = x + self.self_attn.attend(normed, positions, keys, values, window if self.sliding else None)
        return x + self.mlp(self.post_attention_layernorm(x))


class Target(nn.Module):
    """The Laguna target."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, i) for i in range(shape.layers))
        self.norm, self.lm_head = Norm(shape.hidden), linear(shape.hidden, shape.vocabulary)

    def forward(self, ids: Tensor, taps: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
        """ids [B, L] to the final normed states [B, L, hidden] and the outputs of the tapped layers."""
        positions = torch.arange(ids.shape[1])
        distance = positions[:, None] - positions[None]
        window = (distance >= 0) & (distance < self.shape.window)
        x, tapped = self.embed_tokens(ids), {}
        for i, layer in enumerate(self.layers):
            x = layer(x, positions, window)
            tapped[i] = x
        return self.norm(x), [tapped[i] for i in taps]


class DraftLayer(nn.Module):
    """One block of the speculator: the block's rows attend to the context and to the block's own earlier rows."""

    def __init__(self, shape: SpeculatorShape) -> None:
        super().__init__()
        self.self_attn = Attention(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, frequencies(shape.head_dim, 500000.0), 1.0
        )
        self.mlp = Gated(shape.hidden, shape.inner)
        self.input_layernorm, self.post_attention_layernorm = Norm(shape.hidden), Norm(shape.hidden)

    def forward(self, x: Tensor, context: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """x [B, R, hidden] at `positions` [B, R]; context [B, L, hidden]; mask [B, 1, R, L + R]."""
        normed = self.input_layernorm(x)
        past = self.self_attn.keys_values(self.input_layernorm(context), torch.arange(context.shape[1]))
        block = self.self_attn.keys_values(normed, positions)
        keys, values = (torch.cat(pair, 2) for pair in zip(past, block, strict=True))
        x = x + self.self_attn.attend(normed, positions, keys, values, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Speculator(nn.Module):
    """The DFlash block drafter over the target's tapped states."""

    def __init__(self, shape: SpeculatorShape) -> None:
        super().__init__()
        self.shape = shape
        taps = len(shape.taps)
        self.aux_hidden_norms = nn.ModuleList(Norm(shape.hidden) for _ in range(taps))
        self.fc, self.hidden_norm = linear(taps * shape.hidden, shape.hidden), Norm(shape.hidden)
        self.layers = nn.ModuleList(DraftLayer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)

    def forward(self, taps: Sequence[Tensor], anchors: Tensor, embedded: Tensor) -> Tensor:
        """Blocks at positions `anchors` [B, A], embedded [B, A, K + 1, hidden], to states [B, A, K, hidden]."""
        normed = [norm(tap) for norm, tap in zip(self.aux_hidden_norms, taps, strict=True)]
        context = self.hidden_norm(self.fc(torch.cat(normed, -1)))
        batch, blocks, width, hidden = embedded.shape
        positions = (anchors[..., None] + torch.arange(width)).flatten(1)
        owner = torch.arange(blocks).repeat_interleave(width)
        past = torch.arange(context.shape[1])
        seen = (past < anchors.repeat_interleave(width, 1)[..., None]) & (
            past > positions[..., None] - self.shape.window
        )
        within = (owner[:, None] == owner) & (torch.arange(blocks * width) <= torch.arange(blocks * width)[:, None])
        mask = torch.cat((seen, within.expand(batch, -1, -1)), -1)[:, None]
        x = embedded.reshape(batch, blocks * width, hidden)
        for layer in self.layers:
            x = layer(x, context, positions, mask)
        return self.norm(x).view(batch, blocks, width, hidden)[:, :, 1:]
