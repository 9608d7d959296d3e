//go:build !unix

package redisserver

import (
	"errors"
	"os"
	"syscall"
)

// endWithParent asks for nothing: only Linux ends a child with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }

func freeze(*os.Process) error { return errors.ErrUnsupported }
func thaw(*os.Process) error   { return errors.ErrUnsupported }
