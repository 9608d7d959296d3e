//go:build darwin || freebsd || linux

package promfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the disk, and others who write to the same folder, may take.
const patience = 5 * time.Second

// mode lets node_exporter read a file, which is another user.
const mode = 0o644

// Within has something written to a folder, and returns in time, whatever the folder is like.
func Within(dir string, write func() error) error {
	done := make(chan error, 1)
	go func() { done <- write() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s: nothing was written within %s", dir, patience)
	}
}

// Update replaces a file by what text returns. It locks a file beside it: of two that come at once, the second reads
// what the first has written. Nobody but its user can open that, and hold up the metrics. Another user has a lock and a
// temporary file of his own.
func Update(path string, text func() ([]byte, error)) error {
	own := fmt.Sprintf("%s.%d", path, os.Geteuid()) // node_exporter reads what ends in .prom
	turn, err := os.OpenFile(own+".lock", os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer turn.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(turn.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return &fs.PathError{Op: "flock", Path: turn.Name(), Err: err}
	}
	content, err := text()
	if err != nil {
		return err
	}
	return replace(path, own+".tmp", content)
}

// Check returns why files of a folder cannot be written. It leaves nothing there.
func Check(dir string) error {
	return Within(dir, func() error {
		file, err := os.CreateTemp(dir, ".redlock-*.tmp")
		if err != nil {
			return err
		}
		return errors.Join(file.Close(), os.Remove(file.Name()))
	})
}

// Read returns a file of at most so many bytes. Anything may be there; an error matches fs.ErrNotExist if nothing is.
func Read(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a file of this tool"))
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = errors.New("it is too long")
	}
	return text, err
}

// replace writes a file that is never seen half written. What a process that was killed has left of its temporary one
// is removed.
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
