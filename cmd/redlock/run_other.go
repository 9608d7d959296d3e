//go:build !unix

package main

import "errors"

// supervise refuses: the operating system has no process groups, signals and job control.
func (c *runCmd) supervise() error {
	return errors.New("run needs a Unix system; here, use try, extend and release around the command")
}

// hold does nothing, as there are no holders.
func hold() (code int, isHolder bool) { return 0, false }
