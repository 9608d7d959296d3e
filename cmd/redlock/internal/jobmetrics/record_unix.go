//go:build darwin || freebsd || linux

package jobmetrics

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the disk, and others who write to the same folder, may take.
const patience = 5 * time.Second

// mode lets node_exporter read a file, which is another user.
const mode = 0o644

// Start has it written that the command was started at that time, and does not wait for that. Record returns its error.
func (f *File) Start(at time.Time) {
	f.start, f.started = at, make(chan outcome, 1)
	go func() { f.started <- f.update(at, func(v values) { v.start(at) }) }()
}

// Record adds an attempt to the file. It returns in time, whatever the folder is like. A start is never written behind the end.
func (f *File) Record(a Attempt) error {
	done := make(chan error, 1)
	go func() {
		var before outcome
		start := a.Ended.Add(-a.Ran)
		if f.started != nil {
			start, before = f.start, <-f.started
		}
		now := f.update(a.Ended, func(v values) {
			if a.Started && !before.written {
				v.start(start)
			}
			v.add(a, start)
		})
		if before.err != nil && now.err != nil && before.err.Error() == now.err.Error() {
			before.err = nil
		}
		done <- errors.Join(before.err, now.err)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s: nothing was written within %s", f.Dir, patience)
	}
}

// update locks a file beside that of the job: of two that end at once, the second reads what the first has written. Nobody but its user
// can open it, and hold up the metrics. Another user who runs the job has a lock and a temporary file of his own.
func (f *File) update(now time.Time, change func(values)) outcome {
	path := filepath.Join(f.Dir, fileName(f.Name))
	own := fmt.Sprintf("%s.%d", path, os.Geteuid()) // node_exporter reads what ends in .prom
	turn, err := os.OpenFile(own+".lock", os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return outcome{err: err}
	}
	defer turn.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(turn.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return outcome{err: &fs.PathError{Op: "flock", Path: turn.Name(), Err: err}}
	}
	v, reset := read(path, f.Name)
	if reset != nil {
		reset, v = fmt.Errorf("the counters begin anew: %s: %w", path, reset), values{}
	}
	v.prepare(now, f.Every)
	change(v)
	text, err := v.text(f.Name)
	if err == nil {
		err = replace(path, own+".tmp", text)
	}
	return outcome{err == nil, errors.Join(reset, err)}
}

// read returns the values that the last attempt has left; none if there is no file. Anything may be there by now.
func read(path, name string) (values, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // a pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return values{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a file of this tool"))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, err
	}
	return parse(text, name)
}

// replace writes a file that is never seen half written. What a run that was killed has left of its temporary one is removed.
func replace(path, temporary string, text []byte) (err error) {
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()) // Chmod: whatever the umask is
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return err
}
