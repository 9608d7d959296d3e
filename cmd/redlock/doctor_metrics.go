package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/nodemetrics"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promfile"
)

// checkMetrics checks that the file of metrics can be written, before the nodes are examined.
func (c *doctorCmd) checkMetrics() error {
	if c.MetricsDir == "" {
		return nil
	}
	switch err := promfile.Check(c.MetricsDir); {
	case errors.Is(err, errors.ErrUnsupported):
		return usage("--metrics-dir needs Linux, macOS or FreeBSD")
	case err != nil:
		return usage("--metrics-dir: %q cannot be written: %w", c.MetricsDir, err)
	}
	return nil
}

// writeMetrics writes what an examination has come to, for the textfile collector of node_exporter.
//
// Nodes with a key prefix have a file of their own: with one name for all, the doctors of two sets of nodes would
// overwrite each other. Labels tell their samples apart, as node_exporter adds none.
func (c *doctorCmd) writeMetrics(at time.Time, r *doctor.Report) error {
	nodes := strings.Join(slices.Sorted(slices.Values(r.Nodes)), ",")
	labels := []string{"nodes", nodemetrics.Label(nodes)}
	if c.KeyPrefix != "" {
		labels = append(labels, "prefix", nodemetrics.Label(c.KeyPrefix))
	}
	m := nodemetrics.Metrics{Labels: labels, At: at, Nodes: nodemetrics.Nodes(r), ExaminedAt: at, Report: r}
	hash := sha256.Sum256([]byte(nodes + "\n" + c.KeyPrefix))
	path := filepath.Join(c.MetricsDir, fmt.Sprintf("redlock_doctor_%x.prom", hash[:8]))
	return promfile.Within(c.MetricsDir, func() error {
		return promfile.Update(path, func() ([]byte, error) { return m.Text(), nil })
	})
}
