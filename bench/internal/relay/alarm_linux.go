package relay

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm waits for moments. Where nothing else goes on, a timer of Go is up to a millisecond late, as it waits in epoll, which
// counts whole milliseconds; a file descriptor of a timer of the kernel is not.
type alarm struct{ timer *os.File }

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		panic(err) // no kernel is without it
	}
	return alarm{os.NewFile(uintptr(fd), "timer")}
}

func (a alarm) wait(until time.Time) {
	left := time.Until(until)
	if left <= 0 {
		return
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	var expirations [8]byte
	control, err := a.timer.SyscallConn()
	if err == nil {
		_ = control.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &once, nil) })
	}
	if err == nil {
		_, err = a.timer.Read(expirations[:])
	}
	if err != nil {
		panic(err)
	}
}

func (a alarm) close() { _ = a.timer.Close() }
