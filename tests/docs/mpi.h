/* What gpuzip_mpi.h and the blocks of the documentation use of MPI, so that the blocks compile where MPI is not
 * installed. */
#ifndef MPI_H
#define MPI_H

typedef int MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request, MPI_Info, MPI_Fint;
typedef struct {
  int MPI_ERROR;
} MPI_Status;

#define MPI_SUCCESS 0
#define MPI_BYTE 1
#define MPI_INT64_T 2
#define MPI_MIN 3
#define MPI_COMM_WORLD 4
#define MPI_INT 5
#define MPI_MAX 6
#define MPI_SUM 7
#define MPI_COMM_NULL 0
#define MPI_INFO_NULL 0
#define MPI_REQUEST_NULL 0
#define MPI_COMM_TYPE_SHARED 8
#define MPI_UNDEFINED (-1)
#define MPI_MAX_ERROR_STRING 256
#define MPI_IN_PLACE ((void *)-1)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)

#ifdef __cplusplus
extern "C" {
#endif
int MPI_Abort(MPI_Comm, int);
int MPI_Allgather(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
int MPI_Allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
int MPI_Comm_dup(MPI_Comm, MPI_Comm *);
int MPI_Comm_free(MPI_Comm *);
int MPI_Comm_rank(MPI_Comm, int *);
int MPI_Comm_size(MPI_Comm, int *);
int MPI_Comm_split(MPI_Comm, int, int, MPI_Comm *);
int MPI_Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm *);
int MPI_Error_string(int, char *, int *);
int MPI_Irecv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int MPI_Isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int MPI_Waitall(int, MPI_Request[], MPI_Status[]);
int MPI_Waitany(int, MPI_Request[], int *, MPI_Status *);
#ifdef __cplusplus
}
#endif

#endif
