// Package answer decodes the answers of a Work Queue manager of cctools to queue_status, task_status, worker_status and
// wable_status, and the entries of a catalog server.
//
// Answers are untrusted input. Fields that a version lacks keep their zero values, fields that a version adds are
// ignored, and numbers may be written as numbers or as text. If an answer is cut off, or a field is negative or of the
// wrong type, the result is only an error that names the field.
//
// The package is pure.
package answer
