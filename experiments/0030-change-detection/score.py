"""Score windtunnel's history and Apache Otava on series whose changes are known.

pip install apache-otava==0.8.0 otava-test-data==0.1.9
python score.py WINDTUNNEL SEEDS LENGTHS > score.txt    # bin/windtunnel 5 50,100
"""
import collections
import datetime
import json
import resource
import subprocess
import sys

from otava.series import AnalysisOptions, Metric, Series
from otava_test_data.generators.combiner import CombinationGenerator

TOLERANCE = 2  # runs that a change may be told too early or too late
WHO = ("windtunnel", "otava")
BASE = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def hits(found, truth):
    """How many of the found changes are true ones, each true one once."""
    truth, right = list(truth), 0
    for f in found:
        near = [t for t in truth if abs(t - f) <= TOLERANCE]
        if near:
            truth.remove(min(near, key=lambda t: abs(t - f)))
            right += 1
    return right


def cpu(who):
    u = resource.getrusage(who)
    return u.ru_utime + u.ru_stime


def windtunnel(binary, times, values):
    with open("series.csv", "w") as f:
        f.write("time,value\n")
        f.writelines("%s,%r\n" % (t.isoformat(), v) for t, v in zip(times, values))
    out = subprocess.run([binary, "history", "--csv", "series.csv", "--output", "json"], capture_output=True, check=True, text=True)
    return [c["at"] for m in json.loads(out.stdout)["measures"] for c in m["changes"]]


def otava(times, values):
    series = Series("series", None, [int(t.timestamp()) for t in times], {"value": Metric(1, 1.0)}, {"value": values}, {})
    return [c.index for c in series.analyze(AnalysisOptions()).change_points["value"]]


def line(name, c):
    share = lambda a, b: "%5.1f %%" % (100 * a / b) if b else "      –"
    return "%-18s series %4d  changes %4d  found %4d  right %4d  recall %s  precision %s  accused %d of %d" % (
        name, c["series"], c["changes"], c["found"], c["right"], share(c["right"], c["changes"]), share(c["right"], c["found"]), c["accused"], c["quiet"])


def main():
    binary, seeds, lengths = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3].split(",")]
    scores = {who: collections.defaultdict(collections.Counter) for who in WHO}
    spent = dict.fromkeys(WHO, 0.0)
    for seed in range(1, seeds + 1):
        for ts in CombinationGenerator(lengths=lengths, seed=seed).generate_all_test_cases(include_combinations=True, noise_levels=[2.0, 5.0, 10.0]):
            values, truth = [float(v) for v in ts.data], ts.get_change_point_indices()
            times = [BASE + datetime.timedelta(hours=i) for i in range(len(values))]
            pattern = ts.generator_name.split("(")[0].split("+")[0]
            before = cpu(resource.RUSAGE_CHILDREN)
            found = {"windtunnel": windtunnel(binary, times, values)}
            spent["windtunnel"] += cpu(resource.RUSAGE_CHILDREN) - before
            before = cpu(resource.RUSAGE_SELF)
            found["otava"] = otava(times, values)
            spent["otava"] += cpu(resource.RUSAGE_SELF) - before
            for who in WHO:
                for c in (scores[who][""], scores[who][pattern]):
                    c.update(series=1, changes=len(truth), found=len(found[who]), right=hits(found[who], truth), quiet=not truth, accused=bool(found[who] and not truth))
    for who in WHO:
        print(who, "CPU seconds %.1f" % spent[who])
        for pattern in sorted(scores[who]):
            print(line(pattern or "all", scores[who][pattern]))


main()
