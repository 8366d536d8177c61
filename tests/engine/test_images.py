from __future__ import annotations

import base64
import io
import sys

import pytest
from PIL import Image

from tools.engine.errors import RequestError
from tools.engine.images import decode_images


def png(color: str = "red", size: tuple[int, int] = (2, 3), mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, color).save(buffer, "PNG")
    return buffer.getvalue()


def test_each_element_is_base64_or_a_data_uri() -> None:
    plain = base64.b64encode(png())
    uri = b"data:image/png;base64," + base64.b64encode(png("blue", mode="RGBA"))
    images = decode_images([plain, uri])
    assert [(image.mode, image.size, image.getpixel((0, 0))) for image in images] == [
        ("RGB", (2, 3), (255, 0, 0)),
        ("RGB", (2, 3), (0, 0, 255)),
    ]


def test_no_image_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert decode_images([]) == []
    with pytest.raises(RequestError) as caught:
        decode_images([b"x"])
    assert caught.value.code == "UNSUPPORTED"
    assert str(caught.value) == '"image" needs the package "pillow" in the engine\'s environment'


@pytest.mark.parametrize("text", [b"https://example.org/cat.png", b"abc", b"\xff\x00", "不是".encode()])
def test_what_is_no_base64_is_named_by_its_place(text: bytes) -> None:
    with pytest.raises(RequestError, match=r'^"image" element 1 is no base64 image \(.+\): URLs are not fetched$'):
        decode_images([base64.b64encode(png()), text])


def broken_header() -> bytes:
    content = bytearray(png())
    content[16:24] = b"\x00\x00\x00\x00\x00\x00\x00\x00"
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"text", png()[:50], png()[:30], broken_header()])
def test_what_is_no_image_is_named_by_its_place(content: bytes) -> None:
    with pytest.raises(RequestError, match=r'^"image" element 0 cannot be read as an image: ') as caught:
        decode_images([base64.b64encode(content)])
    assert caught.value.code == "INVALID_ARG"


def test_an_image_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(RequestError, match="exceeds limit of 20 pixels"):
        decode_images([base64.b64encode(png(size=(100, 100)))])
