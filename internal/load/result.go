package load

import (
	"cmp"
	"slices"
	"time"
)

// Result is what was measured. In JSON every number has its unit in its name.
type Result struct {
	// Elapsed is the length of the measurement, shorter than planned where it was interrupted.
	Elapsed float64 `json:"elapsed_s"`
	// Cycles are those that succeeded: acquired and released.
	Cycles    int64   `json:"cycles"`
	CyclesPer float64 `json:"cycles_per_s"`
	// Asked is the rate that was asked for; 0: none. Corrected says the same in a word: the
	// percentiles count from when a cycle was due, and are corrected for coordinated omission.
	Asked     float64 `json:"asked_cycles_per_s"`
	Corrected bool    `json:"corrected"`
	// NotBegun are cycles that were due, and for which no caller was free until the end.
	NotBegun int64 `json:"cycles_not_begun"`

	Latency  []Latency `json:"latency"` // acquire, release and so on; those that were not seen have a count of 0
	Failures []Failure `json:"failures"`

	// Won and Lost are the rounds of all acquires: a caller that waits goes many.
	Won    int64   `json:"rounds_won"`
	Lost   int64   `json:"rounds_lost"`
	Nodes  []Node  `json:"nodes"`
	Quorum Latency `json:"quorum"` // of the rounds that were won

	Throughput []Bucket `json:"throughput"`
}

// Latency is the distribution of one thing that takes time.
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

// Point is one of a curve.
type Point struct {
	Percentile float64 `json:"percentile"`
	Micros     float64 `json:"us"`
}

// Failure is how often something failed in one way.
type Failure struct {
	Op      string `json:"op"`   // acquire or release
	Kind    string `json:"kind"` // taken, no_quorum, not_held, other or Unfinished
	Count   int64  `json:"count"`
	Example string `json:"example"` // the first one's words
}

// Node is what one node answered to acquires.
type Node struct {
	Addr    string           `json:"addr"`
	Answers map[string]int64 `json:"answers"` // how many: yes, no, maybe, refused, unsent
	Latency Latency          `json:"latency"` // of yes, no and refused
	// Decided is how many rounds were won with this node's yes as the last that was
	// needed. It is 0 where callers share a name.
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

// Bucket is a stretch of the measurement.
type Bucket struct {
	From      float64 `json:"from_s"`
	Length    float64 `json:"length_s"`
	CyclesPer float64 `json:"cycles_per_s"` // that succeeded, by when they were over
	FailedPer float64 `json:"failed_per_s"`
}

// The names of a Latency.
const (
	Acquire = "acquire"
	Release = "release"
	Cycle   = "cycle"
	Service = "acquire, from its begin"
	Late    = "begin, from when due"
	Refusal = "refusal"
)

// Of returns the latency with a name; one without a count where there is none.
func (r *Result) Of(what string) Latency {
	for _, l := range r.Latency {
		if l.What == what {
			return l
		}
	}
	return Latency{What: what}
}

// newResult merges what the callers have recorded.
func newResult(plan Plan, p *phase, elapsed time.Duration) *Result {
	r := &Result{Elapsed: elapsed.Seconds(), Asked: plan.Rate, Corrected: plan.Rate > 0, Failures: []Failure{}}
	sums := map[string]*histogram{}
	failures := map[failure]*Failure{}
	done, failed := newSeries(p.length), newSeries(p.length)
	names := []string{Acquire, Release, Cycle, Service, Late, Refusal}
	for _, name := range names {
		sums[name] = newHistogram()
	}
	for _, c := range p.callers {
		for name, h := range map[string]*histogram{
			Acquire: c.acquire, Release: c.release, Cycle: c.cycle, Service: c.service, Late: c.late, Refusal: c.refusal,
		} {
			sums[name].merge(h)
		}
		for what, f := range c.failures {
			if failures[what] == nil {
				failures[what] = &Failure{Op: f.Op, Kind: f.Kind, Example: f.Example}
			}
			failures[what].Count += f.Count
		}
		for i := range done.counts {
			done.counts[i] += c.done.counts[i]
			failed.counts[i] += c.failed.counts[i]
		}
	}
	for _, name := range names {
		r.Latency = append(r.Latency, sums[name].latency(name))
	}
	r.Cycles = r.Of(Cycle).Count
	if r.Elapsed > 0 {
		r.CyclesPer = float64(r.Cycles) / r.Elapsed
	}
	if r.Corrected {
		r.NotBegun = p.clock.cycles(elapsed) - p.clock.begun(elapsed)
	}
	for _, f := range failures {
		r.Failures = append(r.Failures, *f)
	}
	slices.SortFunc(r.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	if plan.Votes != nil {
		shared := len(plan.Votes.last) < len(plan.Names)
		r.Nodes, r.Quorum = plan.Votes.results(shared)
		r.Won, r.Lost = r.Quorum.Count, plan.Votes.lost.Load()
	}
	r.Throughput = buckets(done, failed, elapsed)
	return r
}

// buckets turns counts into rates, up to the end of the measurement.
func buckets(done, failed series, elapsed time.Duration) []Bucket {
	list := []Bucket{}
	for i := range done.counts {
		from := time.Duration(i) * done.width
		length := min(done.width, elapsed-from)
		if length <= 0 {
			break
		}
		list = append(list, Bucket{
			From: from.Seconds(), Length: length.Seconds(),
			CyclesPer: float64(done.counts[i]) / length.Seconds(),
			FailedPer: float64(failed.counts[i]) / length.Seconds(),
		})
	}
	return list
}
