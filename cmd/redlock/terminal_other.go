//go:build !unix

package main

import "os"

// terminalSize returns zeros: the size is unknown.
func terminalSize(*os.File) (columns, rows int) { return 0, 0 }
