package jobmetrics

// FileName is the name of a job's file.
func FileName(name string) string { return fileName(name) }
