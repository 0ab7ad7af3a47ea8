#include <stdio.h>
#include <stdlib.h>
int main(int c,char**v){int n=atoi(v[1]);double*a=calloc(n*n,8),*b=calloc(n*n,8);for(int i=0;i<n*n;i++)a[i]=i%17;for(int r=0;r<100000;r++){for(int i=1;i<n-1;i++)for(int j=1;j<n-1;j++)b[i*n+j]=.2*(a[i*n+j]+a[i*n+j-1]+a[i*n+j+1]+a[i*n-n+j]+a[i*n+n+j]);double*t=a;a=b;b=t;}printf("%f\n",a[n+1]);}
