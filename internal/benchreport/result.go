package benchreport

// Result is what was measured. In JSON every number has its unit in its name.
type Result struct {
	// Elapsed is the length of the measurement. It is shorter than planned after an interrupt.
	Elapsed float64 `json:"elapsed_s"`
	// Cycles counts those that succeeded: acquired and released.
	Cycles    int64   `json:"cycles"`
	CyclesPer float64 `json:"cycles_per_s"`
	// Asked is the requested rate; 0 means none.
	Asked float64 `json:"asked_cycles_per_s"`
	// Corrected means that latencies count from when a cycle was due (coordinated omission).
	Corrected bool `json:"corrected"`
	// NotBegun counts cycles that were due and found no free caller until the end.
	NotBegun int64 `json:"cycles_not_begun"`

	Latency  []Latency `json:"latency"` // one for each of the names of a Latency
	Failures []Failure `json:"failures"`

	// Won and Lost count the rounds of all acquires. A caller that waits makes many.
	Won    int64   `json:"rounds_won"`
	Lost   int64   `json:"rounds_lost"`
	Nodes  []Node  `json:"nodes"`
	Quorum Latency `json:"quorum"` // of the rounds that were won

	Throughput []Bucket `json:"throughput"`
}

// The names of a Latency. On a schedule all but Release and Service count from when the cycle
// was due.
const (
	Acquire  = "acquire"
	Release  = "release"
	Cycle    = "cycle"
	Service  = "service time"   // of an acquire, from when it began; only on a schedule
	Queueing = "queueing delay" // from when the cycle was due to when it began; only on a schedule
	Refusal  = "refusal"        // acquires that failed
)

// Latency is the distribution of one duration.
type Latency struct {
	What  string  `json:"what"`
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p99_9_us"`
	Max   float64 `json:"max_us"`
	Curve []Point `json:"curve"` // by percentile, ten points for every nine
}

// Point is one point of a curve.
type Point struct {
	Percentile float64 `json:"percentile"`
	Micros     float64 `json:"us"`
}

// Failure counts failures of one kind.
type Failure struct {
	Op      string `json:"op"`   // acquire or release
	Kind    string `json:"kind"` // taken, no_quorum, not_held, other or Unfinished
	Count   int64  `json:"count"`
	Example string `json:"example"` // the text of the first one
}

// Unfinished is the kind of an acquire that the end of the measurement cut off.
const Unfinished = "unfinished"

// Answers are the kinds of a node's answers to an acquire, as event.Answer of package redlock/event names them.
var Answers = []string{"yes", "no", "unknown", "refused", "unsent"}

// Node is what one node answered to acquires.
type Node struct {
	Addr    string           `json:"addr"`
	Answers map[string]int64 `json:"answers"` // how many, by kind: see [Answers]
	Latency Latency          `json:"latency"` // of the answers that came from the server
	// Decided counts the rounds that this node's yes completed, as the last that was needed.
	// It is 0 if callers share a name.
	Decided int64 `json:"decided"`
}

// Answered is how many acquires the node was to be asked.
func (n *Node) Answered() int64 {
	total := int64(0)
	for _, count := range n.Answers {
		total += count
	}
	return total
}

// Bucket is a part of the measurement.
type Bucket struct {
	From      float64 `json:"from_s"`
	Length    float64 `json:"length_s"`
	CyclesPer float64 `json:"cycles_per_s"` // that succeeded, by when they ended
	FailedPer float64 `json:"failed_per_s"`
}

// Of returns the latency with a name; without a count if there is none.
func (r *Result) Of(what string) Latency {
	for _, l := range r.Latency {
		if l.What == what {
			return l
		}
	}
	return Latency{What: what}
}
