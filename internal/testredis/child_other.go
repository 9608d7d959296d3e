//go:build !unix

package testredis

import (
	"errors"
	"syscall"
)

// endWithParent does nothing: only Linux ends a child with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }

// Freeze fails: there is no such signal.
func (c *Child) Freeze() error { return errors.ErrUnsupported }

// Thaw fails as Freeze does.
func (c *Child) Thaw() error { return errors.ErrUnsupported }
