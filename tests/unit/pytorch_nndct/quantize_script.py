# SPDX-License-Identifier: Apache-2.0
"""A script as users of Vitis AI have it: the steps that the guide prints, with data made up."""

import argparse
import sys

import torch
from frameworks.torch_nets import ResNet

from pytorch_nndct.apis import torch_quantizer

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", default=".")
parser.add_argument("--config_file", default=None)
parser.add_argument("--subset_len", default=None, type=int)
parser.add_argument("--batch_size", default=16, type=int)
parser.add_argument("--quant_mode", default="calib", choices=["float", "calib", "test"])
parser.add_argument("--fast_finetune", action="store_true")
parser.add_argument("--deploy", action="store_true")
parser.add_argument("--inspect", action="store_true")
parser.add_argument("--target", nargs="?", const="")

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_data(subset_len, batch_size):
    """Return batches of images with labels, always the same ones."""
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(subset_len or 64, 3, 16, 16, generator=generator)
    labels = torch.randint(10, (len(images),), generator=generator)
    data = torch.utils.data.TensorDataset(images, labels)
    return torch.utils.data.DataLoader(data, batch_size=batch_size, shuffle=False)


@torch.no_grad()
def evaluate(model, loader, loss_fn):
    model.eval()
    model = model.to(device)
    loss, right, total = 0.0, 0, 0
    for images, labels in loader:
        outputs = model(images.to(device))
        loss += float(loss_fn(outputs, labels.to(device)))
        right += int((outputs.argmax(1).cpu() == labels).sum())
        total += images.size(0)
    return right / total, loss / total


def main():
    args = parser.parse_args()
    batch_size, subset_len = args.batch_size, args.subset_len
    if args.deploy:
        batch_size = subset_len = 1
    model = ResNet().cpu()
    model.load_state_dict(torch.load(f"{args.model_dir}/resnet.pth"))
    input = torch.randn([batch_size, 3, 16, 16])
    if args.quant_mode == "float":
        quant_model = model
        if args.inspect:
            from pytorch_nndct.apis import Inspector

            inspector = Inspector(args.target)
            inspector.inspect(quant_model, (input,), device=device)
            sys.exit()
    else:
        quantizer = torch_quantizer(
            args.quant_mode, model, (input), device=device, quant_config_file=args.config_file,
            target=args.target,
        )  # fmt: skip
        quant_model = quantizer.quant_model
    loss_fn = torch.nn.CrossEntropyLoss().to(device)
    val_loader = load_data(subset_len, batch_size)
    if args.fast_finetune:
        if args.quant_mode == "calib":
            ft_loader = load_data(None, batch_size)
            quantizer.fast_finetune(evaluate, (quant_model, ft_loader, loss_fn))
        elif args.quant_mode == "test":
            quantizer.load_ft_param()
    accuracy, loss = evaluate(quant_model, val_loader, loss_fn)
    print(f"loss: {loss:g}")
    print(f"accuracy: {accuracy:g}")
    if args.quant_mode == "calib":
        quantizer.export_quant_config()
    if args.quant_mode == "test" and args.deploy:
        quantizer.export_torch_script()
        quantizer.export_onnx_model()
        quantizer.export_xmodel()


if __name__ == "__main__":
    main()
