// Package invalid has the error about arguments of the program that are wrong.
package invalid

import (
	"errors"
	"fmt"
)

// Err is what the errors match. Package redlock documents it for programs.
var Err = errors.New("redlock: invalid argument")

// Errorf makes an error that matches [Err] and says what is wrong.
func Errorf(format string, args ...any) error { return &invalid{fmt.Errorf(format, args...)} }

type invalid struct{ error }

func (e *invalid) Is(target error) bool { return target == Err }

func (e *invalid) Unwrap() error { return errors.Unwrap(e.error) }
