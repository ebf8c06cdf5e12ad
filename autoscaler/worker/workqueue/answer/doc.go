// Package answer reads what a Work Queue manager of cctools answers to queue_status,
// task_status, worker_status and wable_status, and what a catalog server says of managers.
//
// What is read is data from the world. Fields that a version lacks are left at their zero
// values, fields that a version adds are ignored, and numbers may be written as numbers or
// as text. An answer that is cut off, or whose fields are of another kind or negative, is an
// error that names the field, and nothing of it is returned.
//
// Everything here is pure.
package answer
