"""What this machine can do at most: matrix products and copies. Floors are operation counts divided by these rates."""

from __future__ import annotations

from harness import seconds_of, write  # first: it sets the number of threads before torch loads

# isort: split
import torch


def rates(device: str) -> dict[str, float]:
    """Operations per second of a product, and bytes per second read and written by a copy."""
    size = 1024 if device == "cpu" else 8192
    found = {}
    for dtype in (torch.float64, torch.float32):
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)
        seconds = min(seconds_of(lambda a=a, b=b, out=out: torch.mm(a, b, out=out), device, 15))
        found[str(dtype).removeprefix("torch.")] = 2 * size**3 / seconds
    source = torch.randn(1 << (25 if device == "cpu" else 29), device=device)
    target = torch.empty_like(source)
    found["bytes"] = 2 * source.nbytes / min(seconds_of(lambda: target.copy_(source), device, 15))
    return found


def main() -> None:
    torch.set_num_threads(1)
    for device in ("cpu", "cuda")[: 1 + torch.cuda.is_available()]:
        found = rates(device)
        print(f"{device}: " + ", ".join(f"{name} {rate:.3g}/s" for name, rate in found.items()))
        where = {} if device == "cpu" else {"device": torch.cuda.get_device_name()}
        write("ceilings" if device == "cpu" else "ceilings_gpu", {**where, "ceilings": found})


if __name__ == "__main__":
    main()
