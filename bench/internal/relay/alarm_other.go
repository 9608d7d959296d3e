//go:build !linux

package relay

import "time"

// alarm waits for moments.
type alarm struct{}

func newAlarm() alarm { return alarm{} }

func (alarm) wait(until time.Time) { <-time.After(time.Until(until)) }

func (alarm) close() {}
