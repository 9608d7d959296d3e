//go:build !(darwin || freebsd || linux)

package jobmetrics

import "errors"

// Record fails: there is no redlock run on this operating system.
func Record(string, string, Attempt) error { return errors.ErrUnsupported }
