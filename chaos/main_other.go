//go:build !linux

// Command chaos needs Linux: it runs clients in network namespaces.
package main

import "log"

func main() { log.Fatal("chaos needs Linux") }
