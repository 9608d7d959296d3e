package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

func (s *Server) snapshot() string { return filepath.Join(s.dir, "snapshot.rdb") }

// Snapshot lets the server save its data (SAVE), and keeps it for Restore instead of what was kept before.
func (s *Server) Snapshot() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.Do("SAVE"); err != nil {
		return fmt.Errorf("snapshot of the server %s: %w", s.Addr(), err)
	}
	return os.Rename(s.dump(), s.snapshot()) // there it is not loaded by chance
}

// Wipe deletes the data of a stopped server: its disk is new.
func (s *Server) Wipe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wipe()
}

func (s *Server) wipe() error {
	if s.running() {
		return fmt.Errorf("wipe the server %s: %w", s.Addr(), errRunning)
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return os.Mkdir(s.data(), 0o700)
}

// Restore replaces the data of a stopped server by the last Snapshot, as someone does who restores a backup. A durable server would
// not look at it.
func (s *Server) Restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config.Durable {
		return fmt.Errorf("restore the server %s: it is durable", s.Addr())
	}
	saved, err := os.ReadFile(s.snapshot())
	if err != nil {
		return fmt.Errorf("restore the server %s: %w", s.Addr(), err)
	}
	if err := s.wipe(); err != nil {
		return err
	}
	return os.WriteFile(s.dump(), saved, 0o600)
}
