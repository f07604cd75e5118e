"""Commands about fences: put some, list them, delete them. A thin layer over MQTT."""

from typing import Annotated

import typer

from roamcast.cli.pubsub import LOCAL, Authority, Brokers, Password, User, leave

fences = typer.Typer(
    help="Fences: regions of which brokers tell who enters, leaves, passes or stays.", no_args_is_help=True
)


@fences.command("put")
def put(
    what: Annotated[str, typer.Argument(help="A GeoJSON file, or a name with --circle or --around.")],
    name: Annotated[str, typer.Option(help="Name of the fences (default: the file's name).")] = "",
    circle: Annotated[str, typer.Option(help="LON,LAT,METRES, or X,Y,METRES if the broker's space is a plane.")] = "",
    around: Annotated[str, typer.Option(help="CLIENT,METRES: a circle that moves with a client.")] = "",
    on: Annotated[list[str], typer.Option(help="With --circle or --around: enter, leave, cross or dwell.")] = [],  # noqa: B006
    dwell: Annotated[
        float, typer.Option(min=0, help="With --circle or --around: seconds inside before `dwell`.")
    ] = 0.0,
    hosts: Annotated[
        str, typer.Option(help="With --circle or --around: only clients that match: `kind = 'van'`.")
    ] = "",
    brokers: Brokers = [LOCAL],  # noqa: B006 - typer copies it
    user: User = "",
    password: Password = "",
    authority: Authority = "",
) -> None:
    """Define fences at all brokers, in place of those of the same names.

        roamcast fences put depot --circle 24.94,60.17,200 --on leave

        roamcast fences put ring --around ambulance-1,150

        roamcast fences put depots.geojson

    Each Feature of a FeatureCollection is a fence of its own, NAME/ID. What happens at them comes on
    `$roam/fence/NAME/…`: `roamcast sub '$roam/fence/#'`.

    Exit codes: 0 all brokers will know them, 1 a broker refused them, 2 the input is wrong, or no broker was reached.
    """
    from roamcast.cli._fences import RegionText, put_file, put_one
    from roamcast.cli._pubsub import Person

    person = Person(tuple(brokers), "", "", "", user, password, authority)
    if circle or around:
        leave(lambda: put_one(person, what, RegionText(circle, around, tuple(on), dwell, hosts)))
    else:
        leave(lambda: put_file(person, what, name))


@fences.command("list")
def list_(
    brokers: Brokers = [LOCAL],  # noqa: B006 - typer copies it
    user: User = "",
    password: Password = "",
    authority: Authority = "",
) -> None:
    """Print what is defined: a name a line, and its GeoJSON.

    Exit codes: 0 printed, 1 a broker refused it, 2 the input is wrong, or no broker was reached.
    """
    from roamcast.cli._fences import print_all
    from roamcast.cli._pubsub import Person

    leave(lambda: print_all(Person(tuple(brokers), "", "", "", user, password, authority)))


@fences.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(help="As `roamcast fences list` shows them.")],
    brokers: Brokers = [LOCAL],  # noqa: B006 - typer copies it
    user: User = "",
    password: Password = "",
    authority: Authority = "",
) -> None:
    """Delete fences at all brokers.

    Exit codes: 0 deleted, 1 one is not there, or a broker refused it, 2 the input is wrong, or no broker was reached.
    """
    from roamcast.cli._fences import delete_all
    from roamcast.cli._pubsub import Person

    leave(lambda: delete_all(Person(tuple(brokers), "", "", "", user, password, authority), names))
