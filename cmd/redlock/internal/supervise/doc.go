// Package supervise runs a command under a lock, for redlock run.
//
// Two processes do it, both of the same program. The front is the one that was started: it passes signals on, stops and
// continues with the command, and exits with its code. The holder, in a process group of its own, has the lock and renews it,
// starts the command in a third process group and ends that group before the lock is over. Each of the two ends the group if
// the other is gone; the front also does if the lock's deadline passes because the holder is frozen.
//
// The command's process waits until its group is in the shared memory; until then it is a stage, which is this program too.
//
//	front   <- socket: messages ->   holder   -> starts, signals, reaps ->   the command's group
//	        <- shared memory: the deadline and the group
//
// docs/adr/0011-run-is-two-processes.md says why.
package supervise
