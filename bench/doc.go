// Package bench compares quorumlock with other lock libraries, and with the least that a lock can cost, on local
// redis-server processes. It holds benchmarks only; cmd/compare runs them and writes docs/benchmarks.md. cmd/page draws what
// redlock bench, a command of the tool, has measured.
//
// The names of the benchmarks have parts of the form key=value, for benchstat to project on.
package bench
