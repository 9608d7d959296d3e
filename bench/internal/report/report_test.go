package report_test

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/report"
)

// raw is two passes of every case that the page shows.
func raw() string {
	var b strings.Builder
	b.WriteString("Unit cycles/s better=higher\nUnit acquisitions/s better=higher\n")
	for _, key := range []string{"passes", "cores", "kernel", "toolchain", "redis-server", "redsync", "redigo", "go-redis", "redislock", "goos", "goarch", "cpu"} {
		fmt.Fprintf(&b, "%s: the %s\n", key, key)
	}
	five := []string{"floor", "quorumlock", "redsync", "redsync-failfast", "redsync-goredis"}
	one := []string{"floor", "quorumlock", "redsync", "bsm-redislock"}
	for pass := 1; pass <= 2; pass++ {
		line := func(workload, subject string, nodes int, more, figures string) {
			fmt.Fprintf(&b, "Benchmark%s_Any/subject=%s/nodes=%d%s-2 \t 100 \t 1000 ns/op %s\n", workload, subject, nodes, more, figures)
		}
		for _, sets := range []struct {
			nodes    int
			subjects []string
		}{{5, five}, {1, one}} {
			for i, s := range sets.subjects {
				line("A", s, sets.nodes, "", fmt.Sprintf("%d p50-µs %d p99-µs 0 failed/op", pass*(10+10*i), pass*(30+10*i)))
				line("B", s, sets.nodes, "", fmt.Sprintf("%d cycles/s 0 failed/op", 60000/pass/(1+i)))
				line("H", s, sets.nodes, "", fmt.Sprintf("%d B/op %d allocs/op", 1000*i, 10*i))
			}
		}
		for i, s := range []string{"quorumlock", "quorumlock-observed", "quorumlock-prometheus", "quorumlock-otel", "quorumlock-otel-traced"} {
			line("N", s, 5, "", fmt.Sprintf("%d p50-µs %d p99-µs", pass*(10+i), pass*(30+i)))
			line("O", s, 5, "", fmt.Sprintf("%d cycles/s", 60000/pass/(1+i)))
		}
		for i, s := range []string{"floor", "quorumlock", "quorumlock-fenced", "redsync"} {
			line("S", s, 5, "", fmt.Sprintf("%d cycles/s 0 failed/op", 48000/pass/(1+i)))
		}
		for i, s := range []string{"floor", "quorumlock", "redsync"} {
			for _, nodes := range []int{3, 5, 7, 9} {
				line("M", s, nodes, "", fmt.Sprintf("%d cycles/s %d cpu-µs/cycle 0 failed/op", 70000/pass/(1+i), nodes*(1+i)))
			}
		}
		line("A", "quorumlock-lock", 5, "", fmt.Sprintf("%d p50-µs %d p99-µs 0 failed/op", pass*22, pass*48))
		line("B", "quorumlock-fenced", 5, "", fmt.Sprintf("%d cycles/s 0 failed/op", 27000/pass))
		for i, s := range five[1:] {
			for frozen := range 3 {
				line("E", s, 5, fmt.Sprintf("/frozen=%d", frozen), fmt.Sprintf("%d p50-µs %d p99-µs 0 failed/op", 10*(1+i)*(1+frozen), 1000*(1+frozen)))
			}
		}
		for i, s := range []string{"quorumlock", "redsync", "redsync-failfast", "redsync-goredis", "quorumlock-handoff", "quorumlock-handoff-fenced"} {
			figures := fmt.Sprintf("%d acquisitions/s %d most/least-goroutine", 8000/pass/(1+i), 1+2*i)
			for j, percentile := range []string{"p50", "p90", "p99", "max"} {
				wait := float64(pass*(1+i)) * math.Pow10(j-1)
				figures += fmt.Sprintf(" %[2]g %[1]s-least-ms %[3]g %[1]s-ms %[4]g %[1]s-most-ms", percentile, wait/2, wait, 4*wait)
			}
			line("C", s, 5, "", figures)
			line("D", s, 5, "", figures+" 7 most/least-process")
			if s == "quorumlock" || s == "quorumlock-handoff" || s == "redsync" {
				line("R", s, 5, "", figures+" 9 most/least-process")
				line("P", s, 5, "/oneway=1ms", figures+" 2.25 round-trip-ms")
				line("Q", s, 5, "/oneway=1ms", figures+" 7 most/least-process 2.5 round-trip-ms")
			}
			if s == "quorumlock-handoff" {
				line("P", s+"-10ms", 5, "/oneway=1ms", figures+" 2.25 round-trip-ms")
				line("Q", s+"-10ms", 5, "/oneway=1ms", figures+" 7 most/least-process 2.5 round-trip-ms")
			}
			line("K", s, 5, "", fmt.Sprintf("%d p50-µs %d p99-µs %g round-trips", 300*(1+i), 600*(1+i), 1.5*float64(1+i)))
		}
		for i, s := range []string{"quorumlock", "quorumlock-all", "quorumlock-fenced", "quorumlock-all-fenced"} {
			line("T", s, 5, "", fmt.Sprintf("%d p50-µs %d p99-µs 0 failed/op", pass*(20+10*i), pass*(50+10*i)))
		}
		for _, of := range []string{"64", "1024"} {
			for i, s := range []string{"quorumlock", "quorumlock-lock", "quorumlock-shared"} {
				line("U", s, 5, "/inside="+of, fmt.Sprintf("%d cycles/s %s cpu-µs/cycle 40 servers-µs/cycle", 24000/pass/(1+i), of))
			}
		}
		for _, of := range []string{"same", "other"} {
			line("V", "quorumlock", 5, "/process="+of, fmt.Sprintf("0.5 p50-holds 1.5 p99-holds %d p100-holds 21 hold-ms 3000 reads/s", len(of)))
		}
		for _, of := range []string{"1", "4"} {
			for i, s := range []string{"quorumlock-lock", "quorumlock-slot"} {
				line("W", s, 5, "/lockers="+of, fmt.Sprintf("%d cycles/s %d inside 5.5 hold-ms 200 cpu-µs/cycle 300 servers-µs/cycle %s most/least-goroutine",
					180/pass*(1+7*i), 1+8*i, of))
			}
		}
		for i, of := range []string{"no", "yes"} {
			line("Y1", "quorumlock", 5, "/job="+of, fmt.Sprintf("%d moves/s", 1000/pass/(1+i)))
			line("Y2", "quorumlock", 5, "/set="+of, fmt.Sprintf("0.2 p50-holds %d p100-holds 1.25 hold-ms 700 locks/s", 3+6*i))
		}
		for i, of := range []string{"2", "4", "8"} {
			line("Y3", "quorumlock", 5, "/names="+of, fmt.Sprintf("%d mean-holds %d p100-holds 2.5 hold-ms", 11*(1+i), 99*(1+i)))
		}
		for i, of := range []string{"0", "4"} {
			figures := fmt.Sprintf("0.9 p50-holds %g p100-holds 301 hold-ms 33 reads/s", 1+0.25*float64(i))
			line("Y4", "quorumlock", 5, "/beside="+of, figures)
		}
		for i, of := range []string{"0", "2"} {
			line("Y5", "quorumlock", 5, "/readers="+of, fmt.Sprintf("60 p50-ms %d p99-ms 170 writes/s %s reads/s", 80*(1+i), of))
		}
		line("Y6", "quorumlock", 5, "", "80 few/s 100 more/s 0.8 few/more")
		for _, of := range []string{"5", "20"} {
			line("Y7", "quorumlock", 3, "/down=0/callers="+of, of+" none/1000")
			line("Y7", "quorumlock", 5, "/down=1/callers="+of, "1 none/1000")
		}
		line("Y8", "quorumlock", 5, "", "34 fresh-wrong-% 4 wrong-%")
		for _, of := range []string{"1", "3"} {
			for _, pause := range []string{"1ms", "20ms", "60ms"} {
				line("Y9", "quorumlock", 5, "/lockers="+of+"/pause="+pause, of+"0 lockers/s 2 redsync/s")
			}
		}
		line("Y10", "quorumlock", 5, "/oneway=5ms", "120 near/s 90 far/s")
		for i, s := range five[:3] {
			line("F", s, 5, "", fmt.Sprintf("%d conns/node", 1+i))
		}
		for i, s := range five[:2] {
			for _, nodes := range []int{1, 3, 5, 7, 9} {
				line("I", s, nodes, "", fmt.Sprintf("%d p50-µs", (1+i)*nodes*10))
			}
		}
		if pass == 1 {
			line("G", "quorumlock", 5, "/frozen=1", "2048 heap-KB -10.5 heap-growth-KB 80 goroutines 0 goroutine-growth 0.00041 failed/op")
			line("J", "quorumlock", 5, "", "10000 locks 9 ttl-s 21.3 core-% 3333 renewals/s 1300 heap-B/lock 0 lost")
			for i, s := range []string{"quorumlock", "redsync"} {
				line("X", s, 1, "", fmt.Sprintf("%d p50-µs %d p99-µs", 1000*(i+1), 9000*(i+1)))
			}
			line("L", "quorumlock", 5, "", "100000 locks 30 ttl-s 33.3 core-% 10000 renewals/s 1200 heap-B/lock 0 lost")
		}
	}
	return b.String()
}

func render(text string) ([]report.File, error) {
	results, err := report.Read(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return report.Render(results)
}

func TestThePageHasMediansAndRangesAndTheRatiosOfEachPass(t *testing.T) {
	files, err := render(raw())
	require.NoError(t, err)
	require.Equal(t, "benchmarks.md", files[0].Name)
	page := string(files[0].Data)
	for _, part := range []string{
		"the passes passes over all benchmarks",
		"| processor | the cpu, the cores cores",
		`|  | p50, µs | × floor | × redsync | p99, µs | failed |
|---|---|---|---|---|---|
| floor | 15 (10–20) | 1 | 0.33 | 45 (30–60) | 0 |
| quorumlock | 30 (20–40) | 2 | 0.67 | 60 (40–80) | 0 |
| quorumlock-lock | 33 (22–44) | 2.20 | 0.73 | 72 (48–96) | 0 |
`,
		"| quorumlock | 22,500 (15,000–30,000) | 0.50 | 1.50 | 0 |\n",
		"| quorumlock-fenced | 20,250 (13,500–27,000) | 0.45 | 1.35 | 0 |\n",
		"| redsync | 2 | 60 | 3 | 3,000 | 3 | 0 |\n",
		"| quorumlock | 10 | 1,000 | 0.50 |\n",
		"| redsync | 3 |\n",
		"| quorumlock | 2,048 | -10.5 | 80 | 0 | 0.0004 |\n",
		"| 9 | quorumlock | 180 | 2 |\n",
		"| quorumlock | 6,000 (4,000–8,000) | 2 | 0.15 (0.10–0.20) | 15 (10–20) | 0.50 | 150 (100–200) | 0.50 | 1 |\n",
		"| redsync-failfast | 2,000 (1,333–2,666) | 0.67 | 0.45 (0.30–0.60) | 45 (30–60) | 1.50 | 450 (300–600) | 1.50 | 5 | 7 |\n",
		"| quorumlock | 10,000 | 9 | 21.3 | 3,333 | 1,300 | 0 |\n| quorumlock | 100,000 | 30 | 33.3 | 10,000 | 1,200 | 0 |\n",
		"| quorumlock-fenced | 12,000 (8,000–16,000) | 0.33 | 1.33 | 0 |\n",
		"| 7 | quorumlock | 26,250 (17,500–35,000) | 0.50 | 14 | 2 | 0.67 |\n",
		"| quorumlock | 1,000 | 0.50 | 9,000 |\n",
		"| 300 (200–400) | 1 | 3 | 2.25 |\n",
		"| 300 (200–400) | 1 | 3 | 7 | 2.50 |\n",
		"| 300 (200–400) | 1 | 3 | 9 |\n",
		"| quorumlock-all | 45 (30–60) | 1.50 | 90 (60–120) | 0 |\n",
		"| 1024 | quorumlock-shared | 6,000 (4,000–8,000) | 0.67 | 1,024 | 40 |\n",
		"| other | 0.50 | 1.50 | 5 | 21 | 3,000 |\n",
		"| yes | 375 (250–500) | 0.50 |\n",
		"| yes | 0.20 | 9 | 1.25 | 700 |\n",
		"| 8 | 33 | 297 | 2.50 |\n",
		"| 4 | 0.90 | 1.25 | 1.25 | 301 | 33 |\n",
		"| 2 | 60 | 160 | 2 | 170 | 2 |\n",
		"| 80 | 100 | 0.80 |\n",
		"| 3 | 20 | 20 |\n| 5 | 5 | 1 |\n",
		"| 34 | 4 |\n",
		"| 1 | 60ms | 10 | 2 |\n| 3 | 1ms | 30 | 2 |\n",
		"| 120 | 90 |\n",
		"| 4 | quorumlock-slot | 1,080 (720–1,440) | 8 | 9 | 5.50 | 200 | 300 | 4 |\n",
	} {
		assert.Contains(t, page, part)
	}
	assert.NotContains(t, page, "no value")
}

func TestEveryChartIsOnThePageAndWellFormed(t *testing.T) {
	files, err := render(raw())
	require.NoError(t, err)
	require.Len(t, files, 9)
	for _, chart := range files[1:] {
		assert.Contains(t, string(files[0].Data), "]("+chart.Name+")")
		require.NoError(t, xml.Unmarshal(chart.Data, new(struct{})), chart.Name)
	}
}

func TestWhateverIsMissingIsAnErrorThatNamesIt(t *testing.T) {
	lines := strings.SplitAfter(raw(), "\n")
	for _, c := range []struct{ missing, message string }{
		{"BenchmarkA_Any/subject=redsync-goredis/", "A of redsync-goredis on 5 nodes"},
		{"BenchmarkA_Any/subject=quorumlock-lock/", "A of quorumlock-lock on 5 nodes"},
		{"BenchmarkB_Any/subject=floor/nodes=1-", "B of floor on 1 nodes"},
		{"BenchmarkC_Any/subject=redsync/", "C of redsync on 5 nodes"},
		{"BenchmarkC_Any/subject=quorumlock-handoff/", "C of quorumlock-handoff on 5 nodes"},
		{"BenchmarkR_Any/subject=quorumlock-handoff/", "R of quorumlock-handoff on 5 nodes"},
		{"BenchmarkD_Any/subject=redsync-goredis", "D of redsync-goredis on 5 nodes"},
		{"BenchmarkE_Any/subject=quorumlock/nodes=5/frozen=2", "E of quorumlock on 5 nodes, 2 frozen"},
		{"BenchmarkG_", "G of quorumlock"},
		{"BenchmarkL_", "L of quorumlock"},
		{"BenchmarkM_Any/subject=redsync/nodes=7", "M of redsync on 7 nodes"},
		{"BenchmarkP_Any/subject=redsync/", "P of redsync on 5 nodes"},
		{"BenchmarkP_Any/subject=quorumlock-handoff-10ms/", "P of quorumlock-handoff-10ms on 5 nodes"},
		{"BenchmarkQ_Any/subject=quorumlock/", "Q of quorumlock on 5 nodes"},
		{"BenchmarkR_Any/subject=redsync/", "R of redsync on 5 nodes"},
		{"BenchmarkS_Any/subject=quorumlock-fenced/", "S of quorumlock-fenced on 5 nodes"},
		{"BenchmarkT_Any/subject=quorumlock-all/", "T of quorumlock-all on 5 nodes"},
		{"BenchmarkU_Any/subject=quorumlock-shared/nodes=5/inside=1024", "U of quorumlock-shared, 1024 on 5 nodes"},
		{"BenchmarkV_Any/subject=quorumlock/nodes=5/process=same", "V of quorumlock, same on 5 nodes"},
		{"BenchmarkW_Any/subject=quorumlock-lock/nodes=5/lockers=1-", "W of quorumlock-lock, 1 on 5 nodes"},
		{"BenchmarkX_Any/subject=redsync/", "X of redsync on 1 nodes"},
		{"BenchmarkY4_Any/subject=quorumlock/nodes=5/beside=0", "Y4 of quorumlock, 0 on 5 nodes"},
		{"BenchmarkY7_Any/subject=quorumlock/nodes=3/down=0/callers=20-", "Y7 of quorumlock, 20 on 3 nodes"},
		{"BenchmarkY9_Any/subject=quorumlock/nodes=5/lockers=3/pause=20ms", "Y9 of quorumlock, 3, pauses of 20ms on 5 nodes"},
		{"BenchmarkI_Any/subject=quorumlock/nodes=9", "I of quorumlock on 9 nodes"},
		{"cpu:", `"cpu"`},
		{"Benchmark", "no result"},
	} {
		var rest strings.Builder
		for _, line := range lines {
			if !strings.HasPrefix(line, c.missing) {
				rest.WriteString(line)
			}
		}
		_, err := render(rest.String())
		require.ErrorContains(t, err, c.message)
	}
}

func TestASectionThatIsMeasuredAgainLeavesTheOthersAsTheyAre(t *testing.T) {
	head, _, _ := strings.Cut(raw(), "Benchmark")
	again := head + strings.Repeat("BenchmarkW10_Any/subject=quorumlock/nodes=5-2 1 1 ns/op 7 wrong-%\n"+
		"BenchmarkA_Any/subject=floor/nodes=5-2 1 1 ns/op 7 p50-µs\n", 2)
	before := strings.ReplaceAll(raw(), "BenchmarkY8_", "BenchmarkW10_")
	text, err := report.Replace([]byte(before), []byte(again), "W")
	require.NoError(t, err)
	want := strings.Join(slices.DeleteFunc(strings.SplitAfter(before, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "BenchmarkW")
	}), "")
	line, _, _ := strings.Cut(strings.TrimPrefix(again, head), "BenchmarkA")
	require.Equal(t, want+line+line, string(text))

	_, err = report.Replace([]byte(before), []byte(strings.Replace(again, "passes: the passes", "passes: 7", 1)), "W")
	require.ErrorContains(t, err, "passes")
}

func TestAPassThatIsIncompleteIsAnError(t *testing.T) {
	extra := "BenchmarkA_Any/subject=floor/nodes=5-2 10 10 ns/op 1 p50-µs 1 p99-µs\n"
	_, err := render(raw() + extra)
	require.ErrorContains(t, err, "passes with")
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for text, message := range map[string]string{
		"": "no result",
		"BenchmarkA_Any/subject=floor/nodes=5-2 ten 10 ns/op\n":               "iteration count",
		"BenchmarkA_Any/subject=floor/nodes=five-2 10 10 ns/op\n":             "five",
		"BenchmarkA_Any-2 10 10 ns/op\n":                                      "no subject",
		raw() + "cpu: another\n" + "BenchmarkH_Any/subject=x/nodes=5 1 1 x\n": `"another"`,
	} {
		_, err := render(text)
		require.ErrorContains(t, err, message)
	}
}

func TestThePublishedPageIsWhatItsFiguresSay(t *testing.T) {
	const docs = "../../../docs/"
	text, err := os.ReadFile(docs + "benchmarks/raw.txt")
	require.NoError(t, err)
	files, err := render(string(text))
	require.NoError(t, err)
	published, err := os.ReadFile(docs + files[0].Name)
	require.NoError(t, err)
	require.Equal(t, string(published), string(files[0].Data), "make bench writes both; compare -render writes the page again")
}
