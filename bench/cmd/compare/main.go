// Command compare runs the benchmarks of the module that it is started in and writes the page about them: the text,
// its charts and what the benchmarks have printed. It needs redis-server, and some minutes during which the machine
// does nothing else.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/report"
)

// rawFile is what the benchmarks have printed, in the folder of the page.
const rawFile = "benchmarks/raw.txt"

func main() {
	docs := flag.String("docs", "../docs", "the folder of the page")
	passes := flag.Int("passes", 15, "how often everything is measured")
	only := flag.String("only", "", "the letter of the benchmarks to measure, on the same machine as the others, whose figures stay")
	render := flag.Bool("render", false, "measure nothing: write the page again from what the last run has printed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *docs, *only, *passes, *render); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, docs, only string, passes int, render bool) error {
	raw := filepath.Join(docs, filepath.FromSlash(rawFile))
	if render {
		text, err := os.ReadFile(raw)
		if err != nil {
			return err
		}
		return write(docs, text)
	}
	begin := time.Now()
	text, err := measure(ctx, only, passes)
	if err != nil {
		return err
	}
	if only != "" {
		before, err := os.ReadFile(raw)
		if err != nil {
			return err
		}
		if text, err = report.Replace(before, text, only); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(raw), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(raw, text, 0o644); err != nil {
		return err
	}
	fmt.Printf("measured in %s\n", time.Since(begin).Round(time.Second))
	return write(docs, text)
}

// write makes the page and its charts of what the benchmarks have printed.
func write(docs string, raw []byte) error {
	results, err := report.Read(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	files, err := report.Render(results)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(docs, filepath.FromSlash(f.Name))
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", name)
	}
	return nil
}
