"""The `image` tensor: base64 text, as NVIDIA's vLLM backend takes it, or a data URI."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

from .errors import RequestError, invalid


def decode_images(encoded: list[bytes]) -> list[Any]:
    """PIL images in RGB. Raises RequestError naming the element that is no image."""
    if not encoded:
        return []
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise RequestError("UNSUPPORTED", '"image" needs the package "pillow" in the engine\'s environment') from error
    images = []
    for index, text in enumerate(encoded):
        try:
            content = _bytes(text)
        except binascii.Error as error:
            raise invalid(f'"image" element {index} is no base64 image ({error}): URLs are not fetched') from error
        try:
            images.append(Image.open(io.BytesIO(content)).convert("RGB"))
        except UnidentifiedImageError:
            raise invalid(
                f'"image" element {index} cannot be read as an image: it is in no format that Pillow knows'
            ) from None
        except Exception as error:  # each of Pillow's readers has exceptions of its own for a broken file
            raise invalid(f'"image" element {index} cannot be read as an image: {error}') from error
    return images


def _bytes(text: bytes) -> bytes:
    if text.startswith(b"data:"):
        text = text.partition(b",")[2]
    return base64.b64decode(text, validate=True)
