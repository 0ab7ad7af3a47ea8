#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
static uint64_t x=88172645463325252ULL; static uint64_t rnd(void){x^=x<<13;x^=x>>7;x^=x<<17;return x;}
int main(int c,char**v){int n=atoi(v[1]),d=4;int*e=malloc(4l*n*d),*q=malloc(4l*n);char*s=malloc(n);for(long i=0;i<(long)n*d;i++)e[i]=rnd()%n;long t=0;
for(int r=0;r<100000;r++){memset(s,0,n);int h=0,l=0;q[l++]=rnd()%n;s[q[0]]=1;while(h<l){int u=q[h++];for(int k=0;k<d;k++){int w=e[u*d+k];if(!s[w]){s[w]=1;q[l++]=w;}}}t+=l;}printf("%ld\n",t);}
