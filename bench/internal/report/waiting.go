package report

import "slices"

// waitingTables are the tables of Y.
func waitingTables() map[string]table {
	ours := []string{"quorumlock"}
	median, longest := value("p50, holds", "p50-holds"), value("longest, holds", "p100-holds")
	hold, reads := value("hold, ms", "hold-ms"), value("reads/s", "reads/s")
	var beside []Case
	for _, c := range vary("Y9", ours, "1", "3") {
		for _, c.Pause = range []string{"1ms", "20ms", "60ms"} {
			beside = append(beside, c)
		}
	}
	instants := slices.Concat(vary("Y7", ours, "5", "20"), vary("Y7", ours, "5", "20"))
	for i := range instants[:2] {
		instants[i].Nodes = 3
	}
	return map[string]table{
		"moves": {vary("Y1", ours, "no", "yes"), []column{
			variant("job"), value("moves/s", "moves/s"), ratio("× no job", "moves/s", variantIs("no")),
		}},
		"set": {vary("Y2", ours, "no", "yes"), []column{
			variant("`LockAll`"), median, longest, hold, value("locks/s", "locks/s"),
		}},
		"busy": {vary("Y3", ours, "2", "4", "8"), []column{
			variant("names"), value("mean, holds", "mean-holds"), longest, hold,
		}},
		"patient": {vary("Y4", ours, "0", "4"), []column{
			variant("beside it"), median, longest, ratio("longest × 0", "p100-holds", variantIs("0")), hold, reads,
		}},
		"writers": {vary("Y5", ours, "0", "2"), []column{
			variant("readers"), value("p50, ms", "p50-ms"),
			value("p99, ms", "p99-ms"), ratio("p99 × 0", "p99-ms", variantIs("0")),
			value("writes/s", "writes/s"), reads,
		}},
		"limits": {on("Y6", 5, ours), []column{
			value("`Slots(3)`, locks/s", "few/s"), value("`Slots(5)`, locks/s", "more/s"), value("ratio", "few/more"),
		}},
		"instants": {instants, []column{nodes, variant("processes"), value("nobody, of 1,000", "none/1000")}},
		"order": {on("Y8", 5, ours), []column{
			value("first 8 times, %", "fresh-wrong-%"), value("later, %", "wrong-%"),
		}},
		"redsync": {beside, []column{
			variant("lockers"), pauses, value("lockers, turns/s", "lockers/s"), value("redsync, turns/s", "redsync/s"),
		}},
		"distance": {on("Y10", 5, ours), []column{
			value("each near one, locks/s", "near/s"), value("the far one, locks/s", "far/s"),
		}},
	}
}
