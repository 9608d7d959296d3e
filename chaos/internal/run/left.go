//go:build linux

package run

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// noteLeft notes the keys without a TTL on all nodes, each once.
func (w *World) noteLeft(recorder *history.Recorder) (err error) {
	for _, node := range w.nodes {
		c, failed := w.conn(node)
		if failed == nil {
			failed = errors.Join(w.noteLeftOn(node, c, recorder), c.Close())
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("look at the keys of node %d: %w", node, failed))
		}
	}
	return err
}

func (w *World) noteLeftOn(node int, c redis.Conn, recorder *history.Recorder) error {
	for cursor := "0"; ; {
		page, err := redis.Values(c.Do("SCAN", cursor, "COUNT", 1000))
		if err != nil {
			return err
		}
		var keys []string
		if _, err := redis.Scan(page, &cursor, &keys); err != nil {
			return err
		}
		for _, key := range keys {
			left, err := redis.Int64(c.Do("PTTL", key))
			if err != nil {
				return err
			}
			if place := fmt.Sprint(node, " ", key); left == -1 && !w.left[place] {
				w.left[place] = true
				op := history.Op{Kind: history.Left, Node: node, Key: key, Start: history.Now()}
				op.End = op.Start
				if op.What, err = redis.String(c.Do("TYPE", key)); err == nil && op.What == "string" {
					op.Value, err = redis.String(c.Do("GET", key))
				}
				if err != nil {
					return err
				}
				recorder.Note(op)
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}
