//go:build !unix

package testredis

import (
	"errors"
	"os"
	"syscall"
)

// endWithParent does nothing: only Linux ends a child with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }

func freeze(*os.Process) error { return errors.ErrUnsupported }
func thaw(*os.Process) error   { return errors.ErrUnsupported }
