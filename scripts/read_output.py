#!/usr/bin/env python3
"""Reads a table folder as others would, and tells as JSON what is in it.

DuckDB reads the folder by a glob with no options, pyarrow as a Hive-partitioned dataset. Both must
find the same rows, columns and values of the id column, or this fails. Of Parquet files it also
tells row groups, page indexes and statistics.

    read_output.py out/clicks --id event_id
    read_output.py out/clicks --format ndjson --id event_id
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet

# Endings of the files of each format, as a glob without options finds them.
ENDINGS = {
    "parquet": [".parquet"],
    "ndjson": [".ndjson", ".ndjson.gz", ".ndjson.zst"],
    "csv": [".csv", ".csv.gz", ".csv.zst"],
}


def find_files(folder, form):
    """The files of the table, and an error for whatever else lies in it."""
    files, strays = [], []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            known = any(path.name.endswith(ending) for ending in ENDINGS[form])
            (files if known else strays).append(path)
    if strays:
        sys.exit(f"files that are no part of the table: {', '.join(map(str, strays))}")
    return files


def by_duckdb(folder, files, column):
    """Rows, distinct, nulls, smallest and largest of `column`, and the column names."""
    endings = sorted({"".join(path.suffixes[-2:] if path.suffix in (".gz", ".zst") else path.suffix) for path in files})
    union = " UNION ALL BY NAME ".join(f"FROM '{quoted(str(folder))}/**/*{ending}'" for ending in endings)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        described = connection.execute(f"DESCRIBE ({union})").fetchall()
        types = {name: kind for name, kind, *_ in described}
        if column is None:
            (rows,) = connection.execute(f"SELECT count(*) FROM ({union})").fetchone()
            return {"rows": rows}, types
        name = '"' + column.replace('"', '""') + '"'
        value = f"epoch_us({name})" if types[column].startswith("TIMESTAMP") else name
        query = f"SELECT count(*), count(DISTINCT v), count(*) - count(v), min(v), max(v) FROM (SELECT {value} AS v FROM ({union}))"
        found = connection.execute(query).fetchone()
        return dict(zip(("rows", "distinct", "nulls", "min", "max"), found)), types


def unpacked(folder, files, into):
    """The files as pyarrow takes them, which does not know the ending .zst."""
    for path in files:
        target = into / path.relative_to(folder).with_suffix("" if path.suffix == ".zst" else path.suffix)
        target.parent.mkdir(parents=True, exist_ok=True)
        compression = "zstd" if path.suffix == ".zst" else None
        with pa.input_stream(str(path), compression=compression) as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
        yield target


def by_pyarrow(folder, files, form, column):
    """The same by pyarrow."""
    if form != "parquet" and any(path.suffix == ".zst" for path in files):
        with tempfile.TemporaryDirectory() as into:
            into = pathlib.Path(into)
            return by_pyarrow(into, list(unpacked(folder, files, into)), form, column)
    table = pa.dataset.dataset(
        [str(path) for path in files],
        format={"ndjson": "json"}.get(form, form),
        partitioning=pa.dataset.partitioning(flavor="hive"),
        partition_base_dir=str(folder),
    )
    if column is None:
        return {"rows": table.count_rows()}, table.schema.names
    values = table.to_table(columns=[column])[column]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    ends = pc.min_max(values).as_py()
    found = {
        "rows": len(values),
        "distinct": pc.count_distinct(values, mode="only_valid").as_py(),
        "nulls": values.null_count,
        "min": ends["min"],
        "max": ends["max"],
    }
    return found, table.schema.names


def describe(folder, path):
    """What a Parquet footer says."""
    metadata = pa.parquet.read_metadata(path)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    return {
        "path": str(path.relative_to(folder)),
        "bytes": path.stat().st_size,
        "rows": metadata.num_rows,
        "row_groups": [group.num_rows for group in groups],
        "page_index": all(chunk.has_offset_index and chunk.has_column_index for chunk in chunks),
        "statistics": all(chunk.is_stats_set for chunk in chunks),
        "compression": sorted({chunk.compression for chunk in chunks}),
        "created_by": metadata.created_by,
    }


def quoted(text):
    return text.replace("'", "''")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--format", choices=sorted(ENDINGS), default="parquet")
    parser.add_argument("--id", help="the column whose values are counted and compared")
    arguments = parser.parse_args()
    folder, form, column = arguments.folder, arguments.format, arguments.id

    files = find_files(folder, form)
    if not files:
        print(json.dumps({"rows": 0, "files": 0}))
        return
    duck, types = by_duckdb(folder, files, column)
    arrow, names = by_pyarrow(folder, files, form, column)
    if duck != arrow:
        sys.exit(f"DuckDB and pyarrow disagree: {duck} and {arrow}")
    if set(types) != set(names):
        sys.exit(f"DuckDB and pyarrow see other columns: {sorted(types)} and {sorted(names)}")
    told = {**duck, "files": len(files), "columns": types}
    if form == "parquet":
        told["parts"] = [describe(folder, path) for path in files]
        counted = sum(part["rows"] for part in told["parts"])
        if counted != duck["rows"]:
            sys.exit(f"the footers count {counted} rows, the readers {duck['rows']}")
    else:
        told["parts"] = [{"path": str(path.relative_to(folder)), "bytes": path.stat().st_size} for path in files]
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    main()
