#include <stdio.h>
#include <stdlib.h>
int main(int c,char**v){long n=atol(v[1]);for(int r=0;;r++){char*s=calloc(n,1);long k=0;for(long i=2;i<n;i++)if(!s[i]){k++;for(long j=i*i;j<n;j+=i)s[j]=1;}if(r>1000)printf("%ld\n",k);free(s);}}
