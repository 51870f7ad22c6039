"""`backstay export`: a line as files that anybody can read, without the pieces and ranks."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Annotated, Optional

import numpy as np
import typer

from backstay.cli import common
from backstay.cli.output import failures_named, innermost, require_free, require_outside, require_parent
from backstay.lines import Line, Problem, crc32c
from backstay.regions import Array, arrays_by_name, tiles_of

HDF5_ENDINGS = (".h5", ".hdf5", ".hdf", ".he5", ".nc")
LONGEST_NAME = 200  # bytes of a region's name in that of a file, of which file systems allow 255
SMALL = 1 << 16  # bytes; a replicated region up to this size is copied into a virtual file


def export(
    target: common.TargetArgument = None,
    dir_option: common.DirOption = None,
    line_option: common.LineOption = None,
    level: common.LevelOption = None,
    out: Annotated[
        Optional[Path],
        typer.Option(
            "--out", "-o", metavar="PATH", help="NAME.h5, NAME.npy (one region) or a directory for .npy files."
        ),
    ] = None,
    region: Annotated[
        Optional[list[str]], typer.Option("--region", "-r", help="Only this one; may be repeated.")
    ] = None,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="HDF5 that refers to the data files instead of copying them.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is at PATH.")] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Blocks and lists come as one global array, with units and placement as attributes; what is private to several
    ranks as /by_rank/00003/NAME. Every byte is checked on the way. A virtual file is made in no time, unchecked, and
    reads the checkpoint's own files: it breaks when the line is pruned."""
    wanted = common.Target(target, dir_option, line_option, level)

    def work(line: Line):
        path = out or Path(f"line-{line.number:08d}.h5")
        arrays = _chosen(line, region)
        _refuse_to_replace(path, force)
        return line, path, _write(path, line, arrays, virtual)

    line, path, names = wanted.read(work, looks_itself=True)
    if as_json:
        common.print_json(
            {"line": line.number, "level": line.level, "out": str(path), "virtual": virtual, "written": names}
        )
    else:
        how = ", which refer to the checkpoint's own files," if virtual else ""
        common.say(f"{common.plural(len(names), 'array')} of {line.title}{how} written to {path}.", style="green")


def _chosen(line: Line, names: Optional[list]) -> list:
    known = arrays_by_name(line)
    for name in names or []:
        if name not in known:
            raise no_such_region(name, known, line)
    return [array for name in (names or known) for array in known[name]]


def no_such_region(name: str, known, line: Line) -> Problem:
    from difflib import get_close_matches

    if name in line.left_out():
        return Problem(
            f"{line.heading} has no values of region '{name}', which was left out: {line.why_left_out(name)}.",
            "missing",
        )
    near = get_close_matches(name, list(known), 1)
    hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(list(known)[:10]) or 'none'}."
    return Problem(f"{line.heading} has no region '{name}': {hint}", "missing")


def _refuse_to_replace(path: Path, force: bool) -> None:
    if path.suffix and path.suffix.lower() not in (*HDF5_ENDINGS, ".npy") and not path.is_dir():
        endings = ", ".join((*HDF5_ENDINGS, ".npy"))
        raise Problem(f"{path} ends in {path.suffix}, which says nothing: {endings}, or a directory without an ending.")
    require_outside(path)
    require_parent(path)
    if path.is_dir() and path.suffix.lower() in (*HDF5_ENDINGS, ".npy"):
        raise Problem(f"{path} is a directory.")
    require_free(path, force)


def _write(path: Path, line: Line, arrays: list, virtual: bool) -> list:
    for array in arrays:
        array.require_readable()
    if path.suffix.lower() in HDF5_ENDINGS:
        with failures_named(path), _replacing(path, line) as part:
            return _write_hdf5(part, line, arrays, virtual)
    if virtual:
        raise Problem(f"Only an HDF5 file can be virtual: give it a name that ends in .h5, not {path}.")
    if path.suffix.lower() == ".npy":
        if len(arrays) != 1:
            raise Problem(
                f"{path} can hold one array, not {len(arrays)}: choose one with --region, or name a directory."
            )
        with failures_named(path), _replacing(path, line) as part:
            _write_npy(part, arrays[0], path.name)
        return [str(path)]
    with failures_named(path):
        return _write_directory(path, line, arrays)


@contextlib.contextmanager
def _replacing(path: Path, line: Line):
    """A name to write under; the file gets its own name when it is complete, and goes if it never is, or the line is
    gone."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
        common.require_there(line)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


# ---- .npy -------------------------------------------------------------------------------------------------------


def _file_name(array: Array) -> str:
    """The region's name with '/' and what is not printable as %XX, so that it stays in the directory."""
    safe = "".join(
        c if c.isprintable() and c not in "/%" else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace"))
        for c in array.name
    )
    if len(safe.encode()) > LONGEST_NAME:  # its checksum keeps it apart from others that begin alike
        safe = f"{safe.encode()[:LONGEST_NAME].decode(errors='ignore')}-{crc32c(safe.encode()):08x}"
    return f"{safe}.rank-{array.rank:05d}.npy" if array.rank >= 0 else f"{safe}.npy"


def _write_directory(path: Path, line: Line, arrays: list) -> list:
    """All files, or none: they get their place when all are complete."""
    is_new = not path.is_dir()
    part = path.with_name(f"{path.name}.part-{os.getpid()}") if is_new else path / f".part-{os.getpid()}"
    part.mkdir()
    try:
        names = [_file_name(array) for array in arrays]
        for array, name in zip(arrays, names):
            _write_npy(part / name, array, name)
        common.require_there(line)
        if is_new:
            os.rename(part, path)
        else:
            for name in names:
                os.replace(part / name, path / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [str(path / name) for name in names]


def _write_npy(path: Path, array: Array, label: str) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    with open(path, "wb") as file, common.Progress(f"writing {label}", array.bytes) as progress:
        np.lib.format.write_array_header_2_0(file, header)
        for low, high in tiles_of(array.shape, array.dtype.itemsize):  # in C order: the file is written straight on
            values = array.read(low, high)
            file.write(values.tobytes())
            progress.advance(values.nbytes)


# ---- HDF5 -------------------------------------------------------------------------------------------------------


def _write_hdf5(path: Path, line: Line, arrays: list, virtual: bool) -> list:
    import h5py

    m = line.manifest
    with h5py.File(path, "w") as file, common.Progress("writing", sum(a.bytes for a in arrays)) as progress:
        facts = {"job": m.job, "line": m.line, "level": m.level, "time": m.time, "ranks": m.ranks, "program": m.program}
        for key, value in facts.items():
            file.attrs[key] = value
        for array in arrays:
            try:
                _put(file, line, array, virtual, progress)
            except (ValueError, TypeError, KeyError, RuntimeError, OSError) as error:
                if getattr(error, "errno", None):
                    raise  # the storage, not the region
                raise Problem(f"The region '{array.label}' cannot be written as HDF5: {innermost(error)}.") from error
        return [_hdf5_name(array) for array in arrays]


def _hdf5_name(array: Array) -> str:
    return f"/by_rank/{array.rank:05d}/{array.name}" if array.rank >= 0 else f"/{array.name}"


def _put(file, line: Line, array: Array, virtual: bool, progress: common.Progress) -> None:
    name = _hdf5_name(array)
    small = array.kind == "replicated" and array.bytes <= SMALL
    if virtual and not small and array.shape and array.bytes:
        dataset = _put_virtual(file, array, name)
    else:
        gaps = {"fillvalue": array.fill} if array.held < array.bytes and array.dtype.kind in "fc" else {}
        dataset = file.create_dataset(name, array.shape, _hdf5_type(array.dtype), **gaps)
        for low, high, values in array.tiles():
            dataset[tuple(slice(a, b) for a, b in zip(low, high))] = values.view(_hdf5_type(values.dtype))
            progress.advance(values.nbytes)
    if array.units:
        dataset.attrs["units"] = array.units
    dataset.attrs["placement"] = array.kind
    dataset.attrs["ranks"] = np.array(array.ranks if array.rank < 0 else [array.rank], dtype=np.int64)


def _put_virtual(file, array: Array, name: str):
    import h5py

    layout = h5py.VirtualLayout(array.shape, _hdf5_type(array.dtype))
    for part in array.parts:
        segment = part.segment
        if segment.bytes:
            path = str(array.line.path_of(segment, check=False).resolve())
            source = h5py.VirtualSource(path, segment.dataset, segment.shape, _hdf5_type(segment.dtype))
            layout[tuple(slice(a, b) for a, b in zip(part.lower, part.upper))] = source
    return file.create_virtual_dataset(name, layout, fillvalue=array.fill if array.dtype.kind in "fc" else None)


def _hdf5_type(dtype):
    """Text is UTF-8; everything else h5py knows from NumPy."""
    import h5py

    return h5py.string_dtype("utf-8", dtype.itemsize) if dtype.kind == "S" else dtype
