//go:build !(darwin || freebsd || linux)

package jobmetrics

import (
	"errors"
	"time"
)

// Start does nothing: there is no redlock run on this operating system.
func (f *File) Start(time.Time) {}

// Record fails.
func (f *File) Record(Attempt) error { return errors.ErrUnsupported }
