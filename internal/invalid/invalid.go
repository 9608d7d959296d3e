// Package invalid has the error about wrong arguments of the program.
package invalid

import (
	"errors"
	"fmt"
)

// Err is the error that all errors of Errorf match. Package redlock documents it for programs.
var Err = errors.New("redlock: invalid argument")

// Errorf returns an error that matches [Err], with the text that format and args make.
func Errorf(format string, args ...any) error { return &invalid{fmt.Errorf(format, args...)} }

type invalid struct{ error }

func (e *invalid) Is(target error) bool { return target == Err }

func (e *invalid) Unwrap() error { return errors.Unwrap(e.error) }
