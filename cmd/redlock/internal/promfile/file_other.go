//go:build !(darwin || freebsd || linux)

package promfile

import "errors"

// Within fails: the tool writes no files of metrics on this operating system.
func Within(string, func() error) error { return errors.ErrUnsupported }

// Update fails.
func Update(string, func() ([]byte, error)) error { return errors.ErrUnsupported }

// Check fails.
func Check(string) error { return errors.ErrUnsupported }
