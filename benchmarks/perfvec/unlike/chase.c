#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
static uint64_t x=88172645463325252ULL; static uint64_t rnd(void){x^=x<<13;x^=x>>7;x^=x<<17;return x;}
struct node{struct node*next; long v[7];};
int main(int c,char**v){ long kib=atol(v[1]); int chains=c>2?atoi(v[2]):1; long n=kib*1024/sizeof(struct node); struct node*a=aligned_alloc(64,n*sizeof*a);
 uint32_t*p=malloc(n*4); for(long i=0;i<n;i++)p[i]=i; for(long i=n-1;i>0;i--){long j=rnd()%i;uint32_t t=p[i];p[i]=p[j];p[j]=t;}
 for(long i=0;i<n;i++){a[p[i]].next=&a[p[(i+1)%n]];a[i].v[0]=i;}
 struct node*q[8]; for(int k=0;k<chains;k++)q[k]=&a[p[k*n/chains]]; long s=0;
 for(long r=0;r<100000000;r++)for(int k=0;k<chains;k++){q[k]=q[k]->next;s+=q[k]->v[0];}
 printf("%ld\n",s);}
