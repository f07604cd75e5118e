"""Tables for others: written as Delta, Iceberg, Kafka, CSV or whatever else the session has a package for."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.journal import NAMES, ingested
from roamcast.spark.prepare import PARTS, prepared
from roamcast.spark.published import Tables
from roamcast.spark.tables import BadPipeline

PARTS_OF_PREPARED = {table.name: table for table in PARTS}


def table_of(tables: Tables, name: str) -> DataFrame:
    """Any table by name: of the journal, of what was prepared from it, or computed."""
    if name in NAMES:
        found: DataFrame = getattr(ingested(tables.spark, tables.journal), name)
        return found
    if name in PARTS_OF_PREPARED:
        return prepared(tables.spark, tables.journal).read(PARTS_OF_PREPARED[name])
    return tables.spark.read.parquet(*tables.paths(name))


def export(frame: DataFrame, kind: str, to: str, options: Mapping[str, str]) -> None:
    """Replaces what is there. Kafka, which has topics and no tables, gets a message of JSON for each row."""
    if kind == "kafka":
        rows = frame.select(F.to_json(F.struct("*")).alias("value"))
        rows.write.format(kind).options(topic=to, **options).save()
    elif "/" in to:
        frame.write.format(kind).mode("overwrite").options(**options).save(to)
    elif "." in to:
        frame.writeTo(to).using(kind).options(**options).createOrReplace()
    else:
        raise BadPipeline(f"'{to}': give a path, an address, or a name in a catalog, as lake.audits.verdicts")
