//go:build !unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// CanFreeze says whether this system can stop a process in its tracks.
const CanFreeze = false

// endWithParent asks for nothing: only Linux ends a child with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }

func freeze(*os.Process) error { return errors.ErrUnsupported }
func thaw(*os.Process) error   { return errors.ErrUnsupported }
