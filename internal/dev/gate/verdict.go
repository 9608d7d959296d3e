package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	repeats    = 3  // how often a test that failed is run alone
	mostFlaky  = 3  // tests that may fail once
	mostLines  = 32 // of the summary
	fewestEach = 2  // lines of each failure
)

// verdict is what comes out of all packages.
type verdict struct {
	passed, packages int
	skipped          []string
	open             []failure // their reason is open
	flaky, failed    []failure
}

// add counts a result, and decides on what it can.
func (v *verdict) add(r result) {
	v.passed += r.passed
	v.packages++
	for _, test := range r.skipped {
		v.skipped = append(v.skipped, r.name()+"."+test)
	}
	if r.ok {
		return
	}
	found := false // the test that broke the package
	for _, f := range r.failed {
		switch {
		case r.broken != "":
			f.reason = "beside what follows, or because of it"
			if slices.ContainsFunc(f.output, func(line string) bool { return whatBroke(line) == r.broken }) {
				f.reason, found = r.broken, true
			}
		case f.hasOneChance(f.test):
			f.reason = "chance cannot fail it"
		default:
			v.open = append(v.open, f)
			continue
		}
		v.failed = append(v.failed, f)
	}
	switch {
	case r.broken != "" && !found:
		v.failed = append(v.failed, failure{job: r.job, output: r.output, reason: r.broken})
	case r.broken == "" && len(r.failed) == 0:
		v.failed = append(v.failed, failure{job: r.job, output: r.output, reason: "the package failed, and none of its tests"})
	}
}

// doubtful returns the failures that are to be judged: none, if there are too many for chance.
func (v *verdict) doubtful() (doubtful []failure) {
	doubtful, v.open = v.open, nil
	if len(doubtful) <= mostFlaky {
		return doubtful
	}
	for _, f := range doubtful {
		f.reason = fmt.Sprintf("more than %d tests failed, so none was run again", mostFlaky)
		v.failed = append(v.failed, f)
	}
	return nil
}

// alone is the job that runs the test of the failure only.
func (f failure) alone() job {
	f.only = f.test
	return f.job
}

// judge decides on a failure by what the test did alone.
func (v *verdict) judge(f failure, again []result) {
	passed := 0
	for _, r := range again {
		if r.ok && r.passed == 1 {
			passed++
		}
		if r.broken != "" {
			f.reason, f.output = "run alone: "+r.broken, r.output
			for _, other := range r.failed {
				f.output = append(other.output, f.output...)
			}
			v.failed = append(v.failed, f)
			return
		}
	}
	f.reason = fmt.Sprintf("run alone, it passed %d of %d times", passed, len(again))
	if passed == len(again) {
		v.passed++
		v.flaky = append(v.flaky, f)
	} else {
		v.failed = append(v.failed, f)
	}
}

func (v *verdict) ok() bool { return len(v.failed) == 0 }

// summary has at most mostLines lines. The last ones tell what failed.
func (v *verdict) summary(took time.Duration) string {
	var text strings.Builder
	if len(v.skipped) > 0 {
		fmt.Fprintf(&text, "SKIPPED: %s\n", strings.Join(v.skipped, ", "))
	}
	each := max(mostLines/max(len(v.flaky)+len(v.failed), 1), fewestEach)
	if len(v.flaky) > 0 {
		fmt.Fprintln(&text, "FLAKY, which fails no gate:")
	}
	for _, f := range v.flaky {
		// No line begins as those of go test do for a failure: whoever counts these would count it.
		fmt.Fprintf(&text, "    %s", f.lines(each))
	}
	for i, f := range v.failed {
		if (i+1)*each > mostLines {
			fmt.Fprintf(&text, "... and %d more\n", len(v.failed)-i)
			break
		}
		fmt.Fprintf(&text, "--- FAIL: %s", f.lines(each))
	}
	fmt.Fprintf(&text, "%d passed, %d failed, %d flaky, %d skipped, in %d packages and %.0f s\n",
		v.passed, len(v.failed), len(v.flaky), len(v.skipped), v.packages, took.Seconds())
	return text.String()
}

// lines returns the first lines of a failure, at most n.
func (f failure) lines(n int) string {
	name := f.name()
	if f.test != "" {
		name = f.test + " (" + name + ")"
	}
	lines := append([]string{name + ": " + f.reason}, essence(f.output)...)
	return strings.Join(lines[:min(n, len(lines))], "\n        ") + "\n"
}

var (
	place    = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)
	seedLine = regexp.MustCompile(`(?i)\bseed\b`)
	noise    = regexp.MustCompile(`^\s*(=== |--- |\s*$|Error Trace:|Test:|\S+/\S+\.\w+:\d+\s*$|FAIL|PASS|\d+:[CM] )`) // the last is the log of a Redis server
)

// essence returns what one needs to know first of the output of a failed test: from the assertion that failed on (testify
// says Error), or from the last line that it printed; before them what says a seed.
func essence(output []string) (lines []string) {
	from := 0
	for i, line := range output {
		if whatBroke(line) != "" {
			from = i
			break
		}
		if place.MatchString(line) {
			from = i
			if i+1 < len(output) && strings.Contains(output[i+1], "Error Trace:") {
				break
			}
		}
	}
	for i, line := range output {
		if i < from && !seedLine.MatchString(line) || noise.MatchString(line) {
			continue
		}
		lines = append(lines, short(strings.Join(strings.Fields(line), " ")))
	}
	return lines
}

// short cuts a line that is too long to read.
func short(line string) string {
	const most = 200 // bytes
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + "..."
	}
	return line
}
