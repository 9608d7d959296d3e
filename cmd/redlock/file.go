package main

import (
	"errors"
	"os"
)

// reportFile is opened before the measurement, so that no result is lost because its file
// cannot be written.
type reportFile struct {
	*os.File
	render func(*report) ([]byte, error)
	unused bool // created by the bench, and still empty
}

type reportFiles []*reportFile

// openFiles opens the files that are asked for. Their content stays until write.
func openFiles(html, svg string) (reportFiles, error) {
	var files reportFiles
	for path, render := range map[string]func(*report) ([]byte, error){html: page, svg: drawing} {
		if path == "" {
			continue
		}
		_, missing := os.Stat(path)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, errors.Join(err, files.close()) // which names the file
		}
		files = append(files, &reportFile{file, render, missing != nil})
	}
	return files, nil
}

// write replaces the content of every file with the report.
func (files reportFiles) write(r *report) error {
	var failed []error
	for _, f := range files {
		content, err := f.render(r)
		if err == nil {
			_ = f.Truncate(0) // fails for what has no length, such as a pipe
			_, err = f.Write(content)
			f.unused = false
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// close closes the files, and removes unused ones.
func (files reportFiles) close() error {
	var failed []error
	for _, f := range files {
		failed = append(failed, f.Close())
		if f.unused {
			failed = append(failed, os.Remove(f.Name()))
		}
	}
	return errors.Join(failed...)
}
