package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// clockChecks look at times.
var clockChecks = []check{
	{name: "latency", docs: "operations.md#nodes", node: latency,
		why: "An acquire counts a node that takes longer than the node timeout as one that is down."},
	{name: "clocks", docs: "operations.md#clocks", need: clockKnown, set: (*examination).clocks,
		why: "Clocks that are off get stepped, which ends locks early. With fencing, acquires take a second round trip, and numbers are out of order if counters are lost."},
}

// sampling bounds how long the round trips of a server are measured.
const sampling = 2 * time.Second

// maxOffset bounds the offset of a clock, so that sums of offsets do not overflow.
const maxOffset = 50 * 365 * 24 * time.Hour

// timeSamples is how often the clock is read: the reading with the shortest round trip counts.
const timeSamples = 5

// measure measures round trips and the clock.
func (f *facts) measure(ctx context.Context, c *conn, o *Options) {
	f.identify(ctx, c) // another connection may lead to another server
	for end := time.Now().Add(sampling); c.err == nil && len(f.latency) < o.Samples && time.Now().Before(end); {
		begin := time.Now()
		_, _ = c.do(ctx, "PING") // a refusal takes as long
		f.latency = append(f.latency, time.Since(begin))
	}
	slices.Sort(f.latency)
	for range timeSamples {
		begin := time.Now()
		reply, _ := c.do(ctx, "TIME")
		took := time.Since(begin)
		words, err := redis.Strings(reply, nil)
		if err != nil || len(words) != 2 {
			break
		}
		seconds, err := strconv.ParseUint(words[0], 10, 40)
		micros, err2 := strconv.ParseUint(words[1], 10, 20)
		if err != nil || err2 != nil {
			break
		}
		if uncertain := took / 2; f.uncertainty < 0 || uncertain < f.uncertainty {
			off := time.Unix(int64(seconds), int64(micros)*1000).Sub(begin.Add(uncertain).Round(0))
			f.clock, f.uncertainty = min(max(off, -maxOffset), maxOffset), uncertain
		}
	}
}

// percentile returns the round trip that p of 100 PINGs did not exceed; 0 if none was measured.
func (f *facts) percentile(p int) time.Duration {
	if len(f.latency) == 0 {
		return 0
	}
	return f.latency[(len(f.latency)-1)*p/100]
}

// severalTimes is how many usual round trips the node timeout should be.
const severalTimes = 4

func latency(x *examination, f *facts) []Finding {
	usual := f.percentile(50)
	if usual*severalTimes <= x.NodeTimeout {
		return nil
	}
	return warning(fmt.Sprintf("a round trip usually takes %.2f ms (99 %%: %.2f ms), too much for the node timeout of %s", millis(usual), millis(f.percentile(99)), x.NodeTimeout),
		fmt.Sprintf("set pool.WithTimeout(%s) in all programs and say so with --node-timeout; or look for slow commands (SLOWLOG GET) and nearer servers", (severalTimes*2*usual).Round(time.Millisecond)))
}

// maxSkew is how far clocks may differ before acquires with fencing take a second round trip.
const maxSkew = time.Second

// clockSpread returns the largest difference between the clocks of two nodes, as far as it is certain.
func (x *examination) clockSpread() (spread time.Duration) {
	for _, a := range x.facts {
		for _, b := range x.facts {
			if a.uncertainty >= 0 && b.uncertainty >= 0 {
				spread = max(spread, a.clock-b.clock-a.uncertainty-b.uncertainty)
			}
		}
	}
	return spread
}

func clockKnown(f *facts) string {
	if f.uncertainty < 0 {
		return "the right +time"
	}
	return ""
}

// clocks compares each clock, ours included, with the one in the middle.
func (x *examination) clocks() (found []Finding) {
	offsets := []time.Duration{0} // ours
	for _, f := range x.facts {
		if f.uncertainty >= 0 {
			offsets = append(offsets, f.clock)
		}
	}
	slices.Sort(offsets)
	middle := offsets[len(offsets)/2]
	if below := offsets[(len(offsets)-1)/2]; below.Abs() < middle.Abs() {
		middle = below // of two in the middle, the one nearer to ours
	}
	const fix = "run NTP (chrony, systemd-timesyncd) on the machine: chronyc makestep before the server is started, not while it serves"
	for _, f := range x.facts {
		if off := f.clock - middle; f.uncertainty >= 0 && off.Abs()-f.uncertainty > maxSkew {
			is := warning(fmt.Sprintf("the clock of the server is %.1f s %s the others", off.Abs().Seconds(), aheadOf(off)), fix)
			is[0].Node = f.addr
			found = append(found, is...)
		}
	}
	if (-middle).Abs() > maxSkew && len(offsets) > 1 {
		found = append(found, warning(fmt.Sprintf("the clock of this machine is %.1f s %s those of the nodes", middle.Abs().Seconds(), aheadOf(-middle)), fix)...)
	}
	return found
}

func aheadOf(off time.Duration) string {
	if off < 0 {
		return "behind"
	}
	return "ahead of"
}
